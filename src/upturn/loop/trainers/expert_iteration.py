"""Rounds of supervised training on what the agent itself did well: four ways that differ in one or two settings."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from upturn.agents.context import Budget, budget_of
from upturn.config import Config
from upturn.errors import TrainingError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.rollouts import SecondAttempts
from upturn.loop.run import Context
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import Course, RolloutSource, family_weights, rollout_plan, train_on_rollouts
from upturn.loop.trainers.training_plan import Held, Plan, practice_plan
from upturn.models import ConversationRenderer, Renderer
from upturn.records import AgentVersion
from upturn.training import TrainingOutcome
from upturn.training.algorithms.expert_iteration import (
    ImitationSettings,
    IteratedSettings,
    RejectionSettings,
    SelfRepairSettings,
    StarSettings,
)
from upturn.training.runs import RunOptions

Way = Literal["rejection", "iterated", "star", "self_repair"]
"""As sections and presets are called; commands have hyphens."""

_TITLES: Mapping[Way, str] = {
    "rejection": "Attempt, keep the best, train on it (rejection sampling)",
    "iterated": "Attempt and train on the successes, in rounds",
    "star": "Attempt, explain what failed with the answer at hand, train from the start (STaR)",
    "self_repair": "Attempt, repair what failed, train from the start",
}


_SECTIONS: Mapping[Way, type[ImitationSettings]] = {
    "rejection": RejectionSettings,
    "iterated": IteratedSettings,
    "star": StarSettings,
    "self_repair": SelfRepairSettings,
}


class Imitation(NamedTuple):
    """One of the ways."""

    way: Way

    def settings(self, config: Config) -> ImitationSettings:
        """Its section, where as many successes of a task are kept as it has trajectories, if that is fewer."""
        section = config.section(_SECTIONS[self.way])
        top = section.selection.top
        if top is None or top <= section.group_size:
            return section
        return replace(section, selection=replace(section.selection, top=section.group_size))

    def plan(self, context: Context, parent: AgentVersion) -> Plan:
        """What it would take, if every attempt were kept."""
        asked = self.settings(context.config)
        course = self._course(context, dict.fromkeys(context.trained_families, 1.0), self.way)
        held = Held(copies=int(asked.restarts))
        return practice_plan(context, parent, self.way, course=course, passes=asked.epochs, held=held)

    def train(self, context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
        """The version that learned from itself; families are attempted by what it failed before."""
        course = self._course(context, family_weights(before), name)
        return train_on_rollouts(context, parent, name, course=course, learn=self._learn(context, course))

    def _learn(self, context: Context, course: Course) -> Callable[[RolloutSource], TrainingOutcome]:
        from upturn.training.algorithms.expert_iteration import run_imitation

        asked = self.settings(context.config)

        def learn(own: RolloutSource) -> TrainingOutcome:
            if asked.hint is not None:
                version = own.worker.version
                refuse_forking(own.worker.renderer, version.prompt, context=budget_of(version.parameters))
            return jointly(
                context.world,
                own.worker,
                run_imitation,
                own.collect,
                asked,
                RunOptions(context.seed, own.folder, evaluate=own.evaluate, progress=own.progress),
                collect_hinted=None
                if asked.hint is None
                else SecondAttempts(own.worker, course.practice, asked.hint.kind),
            )

        return learn

    def _course(self, context: Context, weights: Mapping[str, float], name: str) -> Course:
        section = self.settings(context.config)
        practice = rollout_plan(context, name, section.group_size)
        return Course(_TITLES[self.way], section, weights, practice)


def refuse_forking(renderer: Renderer, prompt: str, *, context: Budget | None = None) -> None:
    """Raises TrainingError for an agent whose earlier turns are shown differently later on.

    A hint is taken out of the beginning of a row. Such a chat template begins a row with every turn, and a context
    with a budget begins some with a note of what is left out.
    """
    if context is not None:
        raise TrainingError(
            f"the agent's context has a budget (context_tokens = {context.tokens}), so that a hint cannot be taken "
            "out of what it read once its history is rewritten; train with `iterated`, or leave the budget out"
        )
    if isinstance(renderer, ConversationRenderer) and not renderer.keeps_prefix(prompt):
        raise TrainingError(
            "the model's chat template shows earlier turns differently once others follow, so that a hint cannot "
            "be taken out of what it read; train with `iterated`, or take a template that keeps what was said"
        )


def _algorithm(way: Way) -> Algorithm:
    run = Imitation(way)
    return Algorithm(_SECTIONS[way], run.plan, run.train, frozenset({"rollouts", "rewards"}))


REJECTION, ITERATED = _algorithm("rejection"), _algorithm("iterated")
STAR, SELF_REPAIR = _algorithm("star"), _algorithm("self_repair")
