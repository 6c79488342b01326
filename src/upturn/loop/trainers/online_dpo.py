"""Pairs of the agent's own fresh attempts, in rounds."""

from collections.abc import Mapping
from dataclasses import replace

from upturn.config import Config
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.run import CONTINUATIONS, Context
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import Course, family_weights, learning, rollout_plan, train_on_rollouts
from upturn.loop.trainers.training_plan import Held, Plan, practice_plan
from upturn.records import AgentVersion
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.ppo import CriticSettings


def settings(config: Config) -> OnlineDpoSettings:
    """``[online_dpo]``, with the usual critic where one is needed and none is described."""
    section = config.section(OnlineDpoSettings)
    needs_critic = section.critic is None and section.pairs.monte_carlo_share < 1
    return replace(section, critic=CriticSettings()) if needs_critic else section


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take; every attempt is counted as if it stood in a pair."""
    asked = settings(context.config)
    course = _course(context, dict.fromkeys(context.trained_families, 1.0), "online-dpo")
    references = int(asked.reference == "initial")
    critics = int(asked.critic is not None)
    held = Held(copies=references, critics=critics, scorings=references + critics)
    return practice_plan(context, parent, "online-dpo", course=course, passes=asked.epochs, held=held)


def train(context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version; families are sampled by what it failed before."""
    from upturn.training.algorithms.online_dpo import run_online_dpo

    course = _course(context, family_weights(before), name)
    learn = learning(context, run_online_dpo, settings(context.config))
    return train_on_rollouts(context, parent, name, course=course, learn=learn)


def _course(context: Context, weights: Mapping[str, float], name: str) -> Course:
    section = settings(context.config)
    is_measured = section.pairs.valued_by == "state_values"
    practice = replace(
        rollout_plan(context, name, section.group_size),
        continuations=(section.pairs.continuations or CONTINUATIONS) if is_measured else 0,
        gamma=section.pairs.gamma,
    )
    return Course("Preference optimisation on its own fresh trajectories (online DPO)", section, weights, practice)


ONLINE_DPO = Algorithm(OnlineDpoSettings, plan, train, frozenset({"rollouts", "rewards"}))
