"""Reinforcement learning with a critic."""

from collections.abc import Mapping

from upturn.loop.evaluation import HeldoutResult
from upturn.loop.run import Context
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import Course, family_weights, learning, rollout_plan, train_on_rollouts
from upturn.loop.trainers.training_plan import Held, Plan, practice_plan
from upturn.records import AgentVersion
from upturn.training.algorithms.ppo import PpoSettings


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take."""
    asked = context.config.section(PpoSettings)
    course = _course(context, dict.fromkeys(context.trained_families, 1.0), "ppo")
    return practice_plan(context, parent, "ppo", course=course, passes=asked.passes, held=Held(critics=1))


def train(context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version; families are sampled by what it failed before."""
    from upturn.training.algorithms.ppo import run_ppo

    course = _course(context, family_weights(before), name)
    learn = learning(context, run_ppo, context.config.section(PpoSettings))
    return train_on_rollouts(context, parent, name, course=course, learn=learn)


def _course(context: Context, weights: Mapping[str, float], name: str) -> Course:
    section = context.config.section(PpoSettings)
    return Course(
        "Reinforcement learning with a critic (PPO)",
        section,
        weights,
        rollout_plan(context, name, section.group_size),
        curriculum=context.config.curriculum,
    )


PPO = Algorithm(PpoSettings, plan, train, frozenset({"rollouts", "rewards", "curriculum"}))
