"""Rollouts that follow a curriculum: their tasks and outcomes."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.errands import MODEL
from upturn.config import AgentConfig, CurriculumSettings
from upturn.environments import EnvironmentKit
from upturn.errors import TrainingError
from upturn.loop.rollouts.curriculum import curriculum_collect
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec, TaskSampler, score_trajectory
from upturn.loop.run.context import Context, version_of
from upturn.loop.run.task_source import kit_of
from upturn.pool import PoolSink, Selection
from upturn.records import Observation, Trajectory
from upturn.training.data.curriculum import Portion
from upturn.training.data.curriculum_collect import CurriculumCollect

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
SHORT = {"max_turns": 1, "max_tokens": 128}
WEIGHTS = {"sums": 1.0, "products": 0.5}


class Graded:
    """The toy desk's kit, with products a level above sums."""

    def __init__(self, kit: EnvironmentKit) -> None:
        self.name, self.verifier, self.environment, self.tasks = kit.name, kit.verifier, kit.environment, kit.tasks
        self.families: Mapping[str, int] = {"sums": 1, "products": 2}


def _collect(context: Context, settings: CurriculumSettings, *, attempts: int = 2) -> CurriculumCollect:
    worker = PolicyWorker(context.runtime, version_of(NANO))
    practice = RolloutSpec("run/practice", 0, attempts)
    return curriculum_collect(worker, WEIGHTS, 4, settings=settings, rollouts=practice, sink=PoolSink(context.pool))


def test_tasks_are_determined_by_family_and_number(desk: ModuleType) -> None:
    """In any order of requests, and the same tasks as without a curriculum."""
    sampler = TaskSampler(desk.kit(), WEIGHTS, 4, seed=5)
    first = sampler.numbered_tasks([Portion("sums", 0, 3), Portion("products", 0, 1)])
    assert [task.family for task in first] == ["sums"] * 3 + ["products"]
    later = sampler.numbered_tasks([Portion("sums", 3, 2)])
    assert sampler.numbered_tasks([Portion("sums", 1, 4)]) == first[1:3] + later
    again = TaskSampler(desk.kit(), WEIGHTS, 4, seed=5)
    assert again.numbered_tasks([Portion("sums", 3, 2)]) == later
    drawn = TaskSampler(desk.kit(), {"sums": 1.0}, 5, seed=5).tasks(0)
    assert first[:3] + later == drawn


def test_numbers_wrap_around_at_the_end_of_a_family(desk: ModuleType, tmp_path: Path) -> None:
    """Five products in a file: number 7 is number 2 again; of six at once there are five."""
    rows = [{"id": f"p{at}", "instruction": f"multiply {at} 2", "family": "products"} for at in range(6)]
    rows[5]["split"] = "heldout"
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")
    sampler = TaskSampler(kit_of(desk.config(tasks={"file": str(file)})), {"products": 1.0}, 3, seed=0)
    every = sampler.numbered_tasks([Portion("products", 0, 6)])
    assert len({task.id for task in every}) == len(every) == 5
    assert sampler.numbered_tasks([Portion("products", 7, 2)]) == every[2:4]
    assert sampler.numbered_tasks([Portion("products", 4, 2)]) == [every[4], every[0]]


def test_rollouts_follow_the_schedule_and_record_success(desk: ModuleType, tmp_path: Path) -> None:
    """Every rollout fails, so the first level stays the current one: 3 or 4 of 4 tasks."""
    settings = CurriculumSettings(min_trajectories=4)
    with desk.opened(tmp_path, desk.config(environment=SHORT)) as context:
        context.runtime.kit = Graded(context.runtime.kit)
        collect = _collect(context, settings)
        rounds = [collect(iteration) for iteration in range(2)]
        further = collect.refill(1, 1)
        state = collect.state()
        resumed = _collect(context, settings)
        resumed.load_state(state)
        assert [group.task for group in resumed(2)] == [group.task for group in collect(2)]
        kept = list(context.pool.selected(Selection(run="run/practice/refill-1"), tenant="default"))
    groups = [*rounds[0], *rounds[1], *further]
    assert len({group.task.id for group in groups}) == len(groups) == 12
    assert {member.succeeded for group in groups for member in group.members} == {False}
    assert len(kept) == 8
    told = collect.metrics()
    assert (told["curriculum_level"], told["success_level_1"]) == (1.0, 0.0)
    assert told["sampled_level_1"] == pytest.approx(0.8)
    sums = [sum(group.task.family == "sums" for group in item) for item in (*rounds, further)]
    assert set(sums) <= {3, 4}
    assert state["given.sums"] == sum(sums)


def test_a_missing_verdict_is_not_a_failure(desk: ModuleType, tmp_path: Path) -> None:
    """The verifier fails on every third of eight trajectories; the others are successes."""
    settings = CurriculumSettings(policy="failure_weighted", min_trajectories=2)
    with desk.opened(tmp_path, desk.config(environment={**SHORT, "verifier": "toy_desk:costly_judge"})) as context:
        collect = _collect(context, settings)
        groups = collect(0)
    attempts = [member for group in groups for member in group.members]
    assert [(member.succeeded, member.is_scorable) for member in attempts].count((True, True)) == 6
    assert [(member.succeeded, member.is_scorable) for member in attempts].count((None, False)) == 2
    told = collect.metrics()
    assert told["curriculum_missing"] == 2.0
    assert told["success_level_1"] == 1.0


def test_success_is_independent_of_the_reward() -> None:
    trajectory = Trajectory("t", "t", "v", (), Observation(""), "finished", "sampled")
    assert score_trajectory(trajectory, None, True).succeeded is True
    assert score_trajectory(trajectory, 1.0, False).succeeded is False
    assert score_trajectory(trajectory, 1.0).succeeded is None


def test_one_level_has_no_schedule_by_levels(desk: ModuleType, tmp_path: Path) -> None:
    with (
        desk.opened(tmp_path, desk.config(environment=SHORT)) as context,
        pytest.raises(TrainingError, match="policy='levels' does nothing with one level only, 1"),
    ):
        _collect(context, CurriculumSettings())
