"""Rounds of supervised training on what the agent itself did well: four ways that differ in one or two settings."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from upturn.agents.context import Budget, budget_of
from upturn.config import Config, ImitationConfig, SelfRepairConfig, StarConfig
from upturn.errors import TrainingError
from upturn.loop.evaluation import ExamResult
from upturn.loop.rollouts import SecondAttempts
from upturn.loop.run import Context, made, optimiser, watch
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.rl_training import Course, Practising, practice_of, practice_weights, practised
from upturn.loop.trainers.training_plan import Held, Plan, practice_plan
from upturn.models import ConversationRenderer, Renderer
from upturn.records import AgentVersion
from upturn.training import ImitationSettings, SelectionSettings, TrainingOutcome, imitation

Way = Literal["rejection", "iterated", "star", "self_repair"]
"""As sections and presets are called; commands have hyphens."""

_TITLES: Mapping[Way, str] = {
    "rejection": "Attempt, keep the best, train on it (rejection sampling)",
    "iterated": "Attempt and train on the successes, in rounds",
    "star": "Attempt, explain what failed with the answer at hand, train from the start (STaR)",
    "self_repair": "Attempt, repair what failed, train from the start",
}


def section_of(config: Config, way: Way) -> ImitationConfig:
    """The section that the way is told by."""
    sections: Mapping[Way, ImitationConfig] = {
        "rejection": config.rejection,
        "iterated": config.iterated,
        "star": config.star,
        "self_repair": config.self_repair,
    }
    return sections[way]


def settings(config: Config, way: Way) -> ImitationSettings:
    """What the way's section asks for. Raises ConfigError."""
    section, base = section_of(config, way), imitation(way)
    second = base.second
    if second is not None and isinstance(section, StarConfig | SelfRepairConfig):
        second = replace(second, mentions=section.mentions)
    return made(
        way,
        lambda: replace(
            base,
            rounds=section.iterations,
            selection=SelectionSettings(section.threshold, min(section.top, section.attempts), section.prefer),
            second=second,
            restart=base.restart and section.iterations > 1,
            epochs=section.epochs,
            batch_rows=section.batch_rows,
            optimiser=optimiser(config, section.learning_rate),
            decay=section.decay,
            **watch(section),
        ),
    )


class Imitation(NamedTuple):
    """One of the ways."""

    way: Way

    def settings(self, config: Config) -> ImitationSettings:
        """What its section asks for. Raises ConfigError."""
        return settings(config, self.way)

    def plan(self, context: Context, parent: AgentVersion) -> Plan:
        """What it would take, if every attempt were kept."""
        asked = settings(context.config, self.way)
        course = self._course(context, dict.fromkeys(context.practised, 1.0), self.way)
        held = Held(copies=int(asked.restart))
        return practice_plan(context, parent, self.way, course=course, passes=asked.epochs, held=held)

    def train(self, context: Context, parent: AgentVersion, before: ExamResult, name: str) -> AgentVersion:
        """The version that learned from itself; families are attempted by what it failed before."""
        course = self._course(context, practice_weights(before), name)
        return practised(context, parent, name, course=course, learn=self._learn(context, course))

    def _learn(self, context: Context, course: Course) -> Callable[[Practising], TrainingOutcome]:
        from upturn.training.algorithms import run_imitation

        asked = settings(context.config, self.way)

        def learn(own: Practising) -> TrainingOutcome:
            if asked.second is not None:
                version = own.trainee.version
                refuse_forking(own.trainee.renderer, version.prompt, context=budget_of(version.parameters))
            return jointly(
                context.world,
                own.trainee,
                run_imitation,
                own.collect,
                asked,
                seed=context.seed,
                run_dir=own.folder,
                second=None
                if asked.second is None
                else SecondAttempts(own.trainee, course.practice, asked.second.kind),
                evaluate=own.evaluate,
                progress=own.progress,
            )

        return learn

    def _course(self, context: Context, weights: Mapping[str, float], name: str) -> Course:
        section = section_of(context.config, self.way)
        practice = practice_of(context, name, section.attempts)
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
