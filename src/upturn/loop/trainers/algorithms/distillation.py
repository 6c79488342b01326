"""On-policy distillation: training on a teacher's scores of the version's own fresh trajectories."""

from collections.abc import Mapping

from upturn.config import Config
from upturn.errors import ConfigError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.run import Context
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import RlSpec, RolloutSource, family_weights, rollout_spec, train_on_rollouts
from upturn.loop.trainers.teacher import (
    add_memory,
    check_one_process,
    check_teacher,
    teacher_argument,
    teacher_cost,
    with_teacher,
)
from upturn.loop.trainers.training_plan import Plan, plan_on_rollouts, policy_overhead
from upturn.records import AgentVersion
from upturn.training.algorithms.distillation import DistillationSettings


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run."""
    settings = context.config.section(DistillationSettings)
    passes = settings.passes
    cost = teacher_cost(parent, settings.teacher, passes)
    overhead = with_teacher(policy_overhead(settings), cost)
    spec = _spec(context, "distillation")
    return add_memory(
        plan_on_rollouts(context, parent, "distillation", spec, passes=passes, overhead=overhead), cost
    )


def train(context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version; families that failed more in ``before`` are sampled more."""
    from upturn.training.algorithms.distillation import run_distillation

    settings = context.config.section(DistillationSettings)

    def extras(_: RolloutSource) -> dict[str, object]:
        return {"teacher": teacher_argument(context, parent, settings.teacher, settings.optimiser)}

    spec = _spec(context, name, family_weights(before))
    return train_on_rollouts(context, parent, name, spec=spec, run=run_distillation, extras=extras)


def _spec(context: Context, name: str, weights: Mapping[str, float] | None = None) -> RlSpec:
    settings = context.config.section(DistillationSettings)
    rollouts = rollout_spec(context, name, settings.group_size)
    return RlSpec("On-policy distillation", settings, rollouts, weights, curriculum=context.config.curriculum)


def check(config: Config) -> None:
    """Raises ConfigError where no teacher is named."""
    if not config.section(DistillationSettings).teacher.model:
        raise ConfigError(["distillation.teacher.model is empty; name the teacher: a folder, a name, or 'nano'"])


def ready(context: Context) -> None:
    """Raises ConfigError for a teacher with other tokens, ModelError for one that does not answer."""
    check_teacher(context, context.config.section(DistillationSettings).teacher)


def check_ranks(config: Config) -> None:
    """Raises ConfigError for a teacher's whole distributions, which need a single process."""
    check_one_process(config.section(DistillationSettings).teacher)


DISTILLATION = Algorithm(
    DistillationSettings,
    plan,
    train,
    frozenset({"rollouts", "curriculum"}),
    check=check,
    ready=ready,
    check_ranks=check_ranks,
)
