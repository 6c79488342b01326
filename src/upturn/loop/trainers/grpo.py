"""Reinforcement learning (GRPO)."""

from collections.abc import Mapping
from dataclasses import replace

from upturn.config import Config
from upturn.errors import ConfigError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.run import Context, continuations
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import (
    Course,
    Reward,
    RolloutSource,
    family_weights,
    rollout_plan,
    train_on_rollouts,
)
from upturn.loop.trainers.training_plan import Plan, held_by, practice_plan
from upturn.records import AgentVersion
from upturn.training import TrainingOutcome
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.runs import RunOptions


def train_grpo(
    context: Context, parent: AgentVersion, weights: Mapping[str, float], name: str, *, reward: Reward | None = None
) -> AgentVersion:
    """The parent after reinforcement learning in the environment; ``weights`` says how often each family is
    sampled.

    ``reward``: what an attempt earns; None = the configured rubric's score. Returns the parent itself where nothing
    was kept.
    """
    from upturn.training.algorithms.grpo import run_grpo

    settings = context.config.section(GrpoSettings)

    def learn(own: RolloutSource) -> TrainingOutcome:
        return jointly(
            context.world,
            own.worker,
            run_grpo,
            own.collect,
            settings,
            RunOptions(context.seed, own.folder, evaluate=own.evaluate, progress=own.progress),
            refill=None if settings.dynamic_sampling is None else own.refill,
        )

    course = grpo_run(context, settings, weights, name, reward=reward)
    return train_on_rollouts(context, parent, name, course=course, learn=learn)


def grpo_run(
    context: Context,
    settings: GrpoSettings,
    weights: Mapping[str, float],
    name: str,
    *,
    reward: Reward | None = None,
) -> Course:
    """How ``[grpo]`` samples; see ``train_grpo``."""
    practice = replace(
        rollout_plan(context, name, settings.group_size, reward=reward),
        continuations=continuations(settings.advantage),
        gamma=settings.advantage.gamma,
    )
    title = "Reinforcement learning (GRPO)"
    return Course(title, settings, weights, practice, settings.staleness, context.config.curriculum)


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take."""
    settings = context.config.section(GrpoSettings)
    return practice_plan(
        context,
        parent,
        "grpo",
        course=grpo_run(context, settings, dict.fromkeys(context.trained_families, 1.0), "grpo"),
        passes=settings.passes,
        held=held_by(settings),
    )


def train(context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version; families are sampled by what it failed before."""
    return train_grpo(context, parent, family_weights(before), name)


def check(config: Config) -> None:
    """Raises ConfigError for a curriculum beside sampling ahead."""
    curriculum, staleness = config.curriculum, config.section(GrpoSettings).staleness
    if curriculum is not None and staleness:
        raise ConfigError(
            [
                f"curriculum.policy = {curriculum.policy!r} decides by what the last iteration came to, which "
                f"sampling ahead (grpo.staleness = {staleness}) does not know yet; take one away"
            ]
        )


GRPO = Algorithm(GrpoSettings, plan, train, frozenset({"rollouts", "rewards", "curriculum"}), check)
