"""A few tasks are learned with the true reward, and not with control rewards."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.rewards.acceptance import random_acceptance
from upturn.training import ScoredGroup
from upturn.training.algorithms.grpo import run_grpo
from upturn.training.algorithms.rft import RftSettings
from upturn.training.policy_settings import KlSettings
from upturn.training.runs import RunOptions


def _trained(task: Any, reward: Callable[[Any], float], tmp_path: Path, *, iterations: int) -> float:
    """The exact expected true reward after training on another one."""

    def collect(iteration: int, /) -> list[ScoredGroup]:
        return [
            replace(
                group, members=tuple(replace(member, turn_rewards=(reward(member),)) for member in group.members)
            )
            for group in task.collect(iteration)
        ]

    base = RftSettings()
    kl = replace(base.objective.kl or KlSettings(1.0), coefficient=1e-3)  # a toy is meant to go far
    settings = replace(
        base,
        objective=replace(base.objective, kl=kl),
        iterations=iterations,
        optimiser=OptimiserSettings(learning_rate=1e-2),
    )
    run_grpo(task.model, collect, settings, RunOptions(0, tmp_path))
    return float(task.score(0))


@pytest.fixture
def task(tiny_model: Callable[..., PreTrainedModel], copy_task: Callable[..., Any]) -> Any:
    """Ten tasks, 16 trajectories each; guessing succeeds 1 time in 20."""
    return copy_task(tiny_model(), symbols=range(3, 13), group_size=16)


def test_ten_tasks_are_learned_from_acceptance(task: Any, tmp_path: Path) -> None:
    assert _trained(task, lambda member: member.turn_rewards[0] / 1.1, tmp_path, iterations=45) >= 0.95


def test_a_random_reward_of_the_same_rate_improves_nothing(task: Any, tmp_path: Path) -> None:
    drawn = 0

    def coin(member: Any) -> float:
        nonlocal drawn
        drawn += 1
        return random_acceptance(replace(member.trajectory, seed=drawn), rate=0.05, seed=1)

    assert _trained(task, coin, tmp_path, iterations=15) < 0.3
