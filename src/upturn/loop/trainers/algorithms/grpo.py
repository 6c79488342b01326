"""GRPO: RL training that compares trajectories of one task with each other."""

from collections.abc import Iterator, Mapping

from upturn.config import Config
from upturn.errors import ConfigError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.run import Context
from upturn.loop.trainers.distributed_training import rank0_function
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import (
    OutcomeReward,
    RlSpec,
    RolloutSource,
    family_weights,
    rollout_spec,
    train_on_rollouts,
)
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
from upturn.training.algorithms.grpo import GrpoSettings


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run."""
    settings = context.config.section(GrpoSettings)
    spec, overhead = _spec(context, "grpo"), policy_overhead(settings)
    cost = teacher_cost(parent, settings.teacher, settings.passes)
    overhead = with_teacher(overhead, cost)
    return add_memory(
        plan_on_rollouts(context, parent, "grpo", spec, passes=settings.passes, overhead=overhead), cost
    )


def train(context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version; families that failed more in ``before`` are sampled more."""
    return train_grpo(context, parent, family_weights(before), name)


def train_grpo(
    context: Context,
    parent: AgentVersion,
    weights: Mapping[str, float],
    name: str,
    *,
    reward: OutcomeReward | None = None,
) -> AgentVersion:
    """The parent after GRPO, or itself where no weights were kept; ``weights``: how often each family is sampled.

    ``reward``: None means the configured rubric's score.
    """
    from upturn.training.algorithms.grpo import run_grpo

    settings = context.config.section(GrpoSettings)
    is_dynamic = settings.dynamic_sampling is not None

    def extras(source: RolloutSource) -> dict[str, object]:
        teacher = settings.teacher and teacher_argument(context, parent, settings.teacher, settings.optimiser)
        return {
            "refill": rank0_function("refill", source.refill) if is_dynamic else None,
            "teacher": teacher,
        }

    spec = _spec(context, name, weights, reward=reward)
    return train_on_rollouts(context, parent, name, spec=spec, run=run_grpo, extras=extras)


def _spec(
    context: Context, name: str, weights: Mapping[str, float] | None = None, *, reward: OutcomeReward | None = None
) -> RlSpec:
    settings = context.config.section(GrpoSettings)
    advantage = settings.advantage
    rollouts = rollout_spec(context, name, settings.group_size, reward=reward, advantage=advantage, source=settings)
    title = "Reinforcement learning (GRPO)"
    return RlSpec(
        title,
        settings,
        rollouts,
        weights,
        settings.staleness,
        context.config.curriculum,
        partial=settings.partial,
    )


def check(config: Config) -> None:
    """Raises ConfigError for a curriculum together with sampling ahead, and for partial rollouts that are not
    possible."""
    curriculum, staleness = config.curriculum, config.section(GrpoSettings).staleness
    if config.section(GrpoSettings).partial is not None and (problems := list(_partial_problems(config))):
        raise ConfigError(problems)
    if curriculum is not None and staleness:
        raise ConfigError(
            [
                f"curriculum.policy = {curriculum.policy!r} chooses tasks by the last iteration's results, which "
                f"sampling ahead (grpo.staleness = {staleness}) does not have yet; omit one of them"
            ]
        )


def ready(context: Context) -> None:
    """Raises ConfigError for a teacher with other tokens, ModelError for one that does not answer."""
    teacher = context.config.section(GrpoSettings).teacher
    if teacher is not None:
        check_teacher(context, teacher)


def _partial_problems(config: Config) -> Iterator[str]:
    if config.curriculum is not None:
        yield (
            f"curriculum.policy = {config.curriculum.policy!r} chooses an iteration's tasks by the results of the "
            "last one, which grpo.partial leaves incomplete; omit one of them"
        )
    if config.rollouts.place == "ray":
        yield (
            "rollouts.place = 'ray' runs whole rollouts on workers, which cannot pause them for grpo.partial; omit "
            "one of them"
        )
    if config.environment.max_seconds is not None:
        yield (
            f"environment.max_seconds = {config.environment.max_seconds} ends trajectories by the clock, which "
            "goes on while grpo.partial pauses them; limit max_turns or max_tokens instead"
        )


def check_ranks(config: Config) -> None:
    """Raises ConfigError for sampling ahead, and a teacher's whole distributions, which need a single process."""
    check_one_process(config.section(GrpoSettings).teacher)
    staleness = config.section(GrpoSettings).staleness
    if staleness:
        raise ConfigError(
            [
                f"grpo.staleness = {staleness} samples while one process trains; several processes take turns: "
                "omit it, or start one process"
            ]
        )


GRPO = Algorithm(
    GrpoSettings,
    plan,
    train,
    frozenset({"rollouts", "rewards", "curriculum"}),
    check=check,
    ready=ready,
    check_ranks=check_ranks,
)
