"""Distributing rollouts and losing workers, with workers in this process."""

import asyncio
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.errands import ErrandsEnvironment, task_stream
from upturn.agents import CallableAgent, Job, RolloutRequest, Setting, run_rollouts
from upturn.agents.cluster import LostWorker, WorkerPool, WorkItem, run_on_workers, split_evenly
from upturn.agents.rollout import rollout
from upturn.config import Limits
from upturn.records import Action, Observation, Task, Trajectory, Turn

TASKS = [task for task, _ in zip(task_stream(["mail_file"], seed=5, split="train"), range(4), strict=False)]


def solve(instruction: str, turns: Sequence[Turn], observation: Observation) -> Action:
    return Action("user", "finish") if len(turns) == 1 else Action("mail", "list", {"folder": "inbox"})


def work_items(count: int = 8) -> list[WorkItem]:
    return [
        WorkItem(RolloutRequest(TASKS[index % 4], index // 4, index % 4), "run/0", "toy@1", 3)
        for index in range(count)
    ]


def setting(item: WorkItem) -> Setting:
    return Setting(
        item.key, CallableAgent(solve), item.agent_version, None, Limits(), item.seed, item.temperature, lambda: 0.0
    )


class FakePool:
    """Runs rollouts in this process; ``deaths``: how often a worker dies before the rollout of an id."""

    def __init__(self, size: int, deaths: Mapping[str, int] | None = None) -> None:
        self.size = size
        self.deaths = Counter(deaths or {})
        self.parts: list[list[list[str]]] = []
        """The ids of each part, by call of ``run``."""

    def load_weights(self, folder: str, version: str) -> None:
        pass

    def run(self, parts: Sequence[Sequence[WorkItem]]) -> Iterator[Trajectory | LostWorker]:
        assert len(parts) <= self.size
        self.parts.append([[item.id for item in part] for part in parts])
        for index, part in enumerate(pickle.loads(pickle.dumps(parts))):  # real pools send them
            for item in part:
                if self.deaths[item.id] > 0:
                    self.deaths[item.id] -= 1
                    yield LostWorker(index, f"death {self.deaths[item.id]} of {item.request.number}")
                    break
                yield asyncio.run(rollout(item.request, lambda _: ErrandsEnvironment(), setting(item)))


def run_here(items: Sequence[WorkItem]) -> list[Trajectory]:
    jobs = [Job(item.request, setting(item)) for item in items]
    return asyncio.run(run_rollouts(jobs, lambda _: ErrandsEnvironment()))


@pytest.mark.parametrize("size", [1, 2, 3, 20])
def test_workers_give_the_trajectories_of_one_process_in_order(size: int) -> None:
    pool: WorkerPool = FakePool(size)
    arrived: list[Trajectory] = []
    results = run_on_workers(work_items(), pool, on_finish=arrived.append)
    assert results.trajectories == run_here(work_items())
    assert results.losses == {} and results.reasons == ()
    assert sorted(trajectory.id for trajectory in arrived) == sorted(item.id for item in work_items())


def test_unfinished_rollouts_of_a_lost_worker_are_retried() -> None:
    items = work_items()
    pool = FakePool(2, {items[2].id: 1})
    arrived: list[Trajectory] = []
    results = run_on_workers(items, pool, on_finish=arrived.append)
    assert results.trajectories == run_here(items)
    ids = [item.id for item in items]
    assert pool.parts == [[ids[:4], ids[4:]], [[ids[2]], [ids[3]]]], "finished rollouts are not repeated"
    assert results.losses == {ids[2]: 1, ids[3]: 1}
    assert results.reasons == ("death 0 of 0",)
    assert len(arrived) == len(items), "each once"


def test_a_rollout_that_always_kills_its_worker_is_recorded_as_failed_alone() -> None:
    items = work_items()
    pool = FakePool(2, {items[1].id: 99})
    arrived: list[Trajectory] = []
    results = run_on_workers(items, pool, retries=2, on_finish=arrived.append)
    lost = results.trajectories[1]
    assert lost.outcome == "environment_error" and lost.turns == () and lost.rows == ()
    assert lost.error == "ClusterError: its worker was lost 3 times, at last: death 96 of 0"
    expected = run_here(items)
    assert results.trajectories[:1] + results.trajectories[2:] == expected[:1] + expected[2:]
    assert replace(lost, turns=()).id == expected[1].id and lost.seed == expected[1].seed
    assert results.losses[items[1].id] == 3 and 98 not in results.losses.values()
    assert all(len(part) == 1 for call in pool.parts[2:] for part in call), "in the last retry each runs alone"
    assert arrived[-1] == lost


def test_without_retries_a_lost_rollout_fails_at_once() -> None:
    items = work_items(3)
    results = run_on_workers(items, FakePool(3, {items[0].id: 1}), retries=0)
    assert [trajectory.outcome for trajectory in results.trajectories] == [
        "environment_error",
        "finished",
        "finished",
    ]
    assert results.losses == {items[0].id: 1}
    with pytest.raises(ValueError, match="retries must be 0 or more, got -1"):
        run_on_workers(items, FakePool(1), retries=-1)


def test_no_items_call_no_worker() -> None:
    pool = FakePool(2)
    assert run_on_workers([], pool).trajectories == []
    assert all(part == [] for part in pool.parts)


@given(st.integers(0, 40), st.integers(1, 9))
def test_items_are_split_evenly_in_order(count: int, workers: int) -> None:
    items = [WorkItem(RolloutRequest(_task(index), 0, index), "k", "a@1", 0) for index in range(count)]
    parts = split_evenly(items, workers)
    assert [item for part in parts for item in part] == items
    assert len(parts) == min(count, workers)
    sizes = {len(part) for part in parts}
    assert not sizes or (max(sizes) - min(sizes) <= 1 and min(sizes) >= 1)


def _task(index: int) -> Task:
    return replace(TASKS[0], id=f"t{index}")
