"""Expert iteration: supervised training on the agent's own successes, in four variants that differ in settings."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from upturn.agents.context import Budget, budget_of
from upturn.config import Config
from upturn.errors import TrainingError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.rollouts import HintedRetries
from upturn.loop.run import Context
from upturn.loop.trainers.distributed_training import Rank0, rank0_function
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import RlSpec, RolloutSource, family_weights, rollout_spec, train_on_rollouts
from upturn.loop.trainers.training_plan import Overhead, Plan, plan_on_rollouts
from upturn.models import ConversationRenderer, Renderer
from upturn.records import AgentVersion
from upturn.training.algorithms.expert_iteration import (
    ImitationSettings,
    IteratedSettings,
    RejectionSettings,
    SelfRepairSettings,
    StarSettings,
)


class Variant(NamedTuple):
    """One variant."""

    name: str
    """As in its section."""
    section: type[ImitationSettings]
    title: str
    """For people."""

    def settings(self, config: Config) -> ImitationSettings:
        """The section, with ``selection.top`` limited to the group size."""
        settings = config.section(self.section)
        top = settings.selection.top
        if top is None or top <= settings.group_size:
            return settings
        return replace(settings, selection=replace(settings.selection, top=settings.group_size))

    def plan(self, context: Context, parent: AgentVersion) -> Plan:
        """Estimated cost of a run, as if every trajectory were trained on."""
        settings, spec = self.settings(context.config), self.spec(context, self.name)
        overhead = Overhead(copies=int(settings.restarts))
        return plan_on_rollouts(context, parent, self.name, spec, passes=settings.epochs, overhead=overhead)

    def train(self, context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
        """The trained version; families that failed more in ``before`` are sampled more."""
        from upturn.training.algorithms.expert_iteration import run_imitation

        hint, spec = self.settings(context.config).hint, self.spec(context, name, family_weights(before))

        def extras(source: RolloutSource) -> dict[str, Rank0]:
            if hint is None:
                return {}
            version = source.worker.version
            refuse_rewritten_history(source.worker.renderer, version.prompt, budget=budget_of(version.parameters))
            retries = HintedRetries(source.worker, spec.rollouts, hint.kind)
            return {"collect_hinted": rank0_function("collect_hinted", retries)}

        return train_on_rollouts(context, parent, name, spec=spec, run=run_imitation, extras=extras)

    def spec(self, context: Context, name: str, weights: Mapping[str, float] | None = None) -> RlSpec:
        """The run of the training step ``name``."""
        settings = self.settings(context.config)
        return RlSpec(
            self.title, settings, rollout_spec(context, name, settings.group_size, source=settings), weights
        )


def refuse_rewritten_history(renderer: Renderer, prompt: str, *, budget: Budget | None = None) -> None:
    """Raises TrainingError for an agent whose earlier turns are shown differently later on.

    A hint is removed from the start of a row. Such a chat template starts a row with every turn, and a context
    budget starts some rows with a note on omitted turns.
    """
    if budget is not None:
        raise TrainingError(
            f"the agent has a context budget (context_tokens = {budget.tokens}), and a hint cannot be removed from "
            "a rewritten history; train with `iterated`, or omit the budget"
        )
    if isinstance(renderer, ConversationRenderer) and not renderer.keeps_prefix(prompt):
        raise TrainingError(
            "the model's chat template shows earlier turns differently once others follow, and a hint cannot be "
            "removed from a rewritten history; train with `iterated`, or use a template that keeps earlier turns"
        )


def _algorithm(name: str, section: type[ImitationSettings], title: str) -> Algorithm:
    variant = Variant(name, section, title)
    return Algorithm(section, variant.plan, variant.train, frozenset({"rollouts", "rewards"}))


REJECTION = _algorithm(
    "rejection", RejectionSettings, "Train on the best of many trajectories (rejection sampling)"
)
ITERATED = _algorithm("iterated", IteratedSettings, "Sample and train on the successes, in iterations")
STAR = _algorithm("star", StarSettings, "Retry failures with the answer as a hint, train from the start (STaR)")
SELF_REPAIR = _algorithm(
    "self_repair", SelfRepairSettings, "Retry failures with their trouble as a hint, train from the start"
)
