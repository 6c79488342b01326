"""The components that GDPO compares add up to the reward of a trajectory, and reach the estimator in a real run."""

import math
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.config import RewardConfig
from upturn.errors import ConfigError
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.trainers.algorithms import grpo
from upturn.loop.trainers.registry import parse_full_config
from upturn.loop.trainers.rl_training import reward_components, rollout_spec
from upturn.pool import PoolSink
from upturn.records import AgentVersion, Evaluation, Observation, Trajectory, Turn
from upturn.training import RewardComponent
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.rft import RftSettings
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.run_folder import CURVE_FILE

NANO = AgentVersion("nano", "base", "local_model", model=MODEL, parameters={"temperature": 1.0})
CONFIG: dict[str, Any] = {
    "agents": [{"name": "nano", "kind": "local_model", "model": MODEL, "temperature": 1.0}],
    "run": {"threads": 1},
    "environment": {"name": ENVIRONMENT, "max_turns": 6, "max_tokens": 240, "max_action_tokens": 32},
    "tasks": {"heldout_count": 30, "families": ["event_shift"]},
    "rewards": {"weights": {"success": 3.0, "efficiency": 1.0}, "overlong_tokens": 60, "overlong_buffer": 50},
    "grpo": {"preset": "gdpo", "iterations": 1, "evaluate_every": None, "keep": "final"},
}


def test_components_by_hand() -> None:
    """Weights 3 and 1 are shares ¾ and ¼; the turns' own rewards are 1 + 2."""
    turns = (Turn(Observation(""), "", None, reward=1.0), Turn(Observation(""), "", None, reward=2.0))
    trajectory = Trajectory("t", "task", "nano@1", turns, Observation(""), "finished", "sampled", ())
    evaluation = Evaluation("e", "task", "t", "v/1", "success", (), {"success": 1.0, "other": 5.0}, {}, None)
    config = RewardConfig(weights={"success": 3.0, "efficiency": 1.0})
    components = (
        RewardComponent("success", 1.0, 0.75),
        RewardComponent("efficiency", None, 0.25),  # missing, not 0
        RewardComponent("turns", 3.0, 1.0),
    )
    assert reward_components(config, trajectory, evaluation) == components
    limited = replace(config, overlong_tokens=8, overlong_buffer=4)
    overlong = RewardComponent("overlong", 0.0, 1.0)  # nothing written
    assert reward_components(limited, trajectory, evaluation) == (*components[:2], overlong, components[2])


def test_components_of_sampled_trajectories_add_up_to_their_returns(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run", parse_full_config(CONFIG)) as context:
        settings = context.config.section(GrpoSettings)
        rollouts = replace(grpo._spec(context, "x").rollouts, group_size=6)
        assert rollout_spec(context, "x", 2, advantage=AdvantageSettings()).components is None
        worker = PolicyWorker(context.runtime, NANO)
        tasks = list(islice(context.kit.tasks(seed=3, split="train", families=["event_shift"]), 3))
        groups = worker.sample_groups(tasks, 0, rollouts, PoolSink(context.pool))
    members = [member for group in groups for member in group.members]
    for member in members:
        assert member.components is not None and member.turn_rewards is not None
        assert [part.name for part in member.components] == ["success", "efficiency", "overlong", "turns"]
        total = math.fsum(part.weight * (part.value or 0.0) for part in member.components)
        assert total == pytest.approx(math.fsum(member.turn_rewards))
    assert len({part.value for member in members for part in member.components or ()}) > 2
    run_grpo(worker.model, lambda _: groups, settings, RunOptions(0, tmp_path / "training"))
    (point,) = read_curve(tmp_path / "training" / CURVE_FILE)
    assert point.metrics["unscorable"] == 0.0 and point.metrics["optimiser_steps"] == 2.0


def test_rewards_without_components_are_refused_in_the_settings() -> None:
    with pytest.raises(
        ConfigError, match=r"advantage\.estimator='components' compares the components of \[rewards\]"
    ):
        RftSettings(advantage=AdvantageSettings("components"))
