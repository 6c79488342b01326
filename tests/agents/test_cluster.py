"""Dealing attempts out and what happens when workers are lost, with workers in this process."""

import asyncio
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.errands import ErrandsEnvironment, task_stream
from upturn.agents import Attempt, CallableAgent, Job, Setting, run_rollouts
from upturn.agents.cluster import Finished, Lost, WorkerPool, WorkItem, run_on_workers, split_evenly
from upturn.agents.rollout import rollout
from upturn.config import Limits
from upturn.records import Action, Observation, Task, Trajectory, Turn

TASKS = [task for task, _ in zip(task_stream(["mail_file"], seed=5, split="train"), range(4), strict=False)]


def solve(instruction: str, turns: Sequence[Turn], observation: Observation) -> Action:
    return Action("user", "finish") if len(turns) == 1 else Action("mail", "list", {"folder": "inbox"})


def works(count: int = 8) -> list[WorkItem]:
    return [
        WorkItem(Attempt(TASKS[index % 4], index // 4, index % 4), "run/0", "toy@1", 3) for index in range(count)
    ]


def setting(work: WorkItem) -> Setting:
    return Setting(
        work.key, CallableAgent(solve), work.agent_version, None, Limits(), work.seed, work.temperature, lambda: 0.0
    )


class FakePool:
    """Plays in this process; a worker dies before the attempts named in ``deadly``, as often as they say."""

    def __init__(self, size: int, deadly: Mapping[str, int] | None = None) -> None:
        self.size = size
        self.left = Counter(deadly or {})
        self.parts: list[list[list[str]]] = []
        """Of each call of ``run``, the ids of each part."""

    def load_weights(self, folder: str, version: str) -> None:
        pass

    def run(self, parts: Sequence[Sequence[WorkItem]]) -> Iterator[Finished | Lost]:
        assert len(parts) <= self.size
        self.parts.append([[work.id for work in part] for part in parts])
        for index, part in enumerate(pickle.loads(pickle.dumps(parts))):  # it is sent, after all
            for work in part:
                if self.left[work.id] > 0:
                    self.left[work.id] -= 1
                    yield Lost(index, f"death {self.left[work.id]} of {work.attempt.number}")
                    break
                yield Finished(asyncio.run(rollout(work.attempt, lambda _: ErrandsEnvironment(), setting(work))))


def in_process(of: Sequence[WorkItem]) -> list[Trajectory]:
    jobs = [Job(work.attempt, setting(work)) for work in of]
    return asyncio.run(run_rollouts(jobs, lambda _: ErrandsEnvironment()))


@pytest.mark.parametrize("size", [1, 2, 3, 20])
def test_workers_give_the_trajectories_of_one_process_in_order(size: int) -> None:
    pool: WorkerPool = FakePool(size)
    arrived: list[Trajectory] = []
    found = run_on_workers(works(), pool, on_finish=arrived.append)
    assert found.trajectories == in_process(works())
    assert found.losses == {} and found.reasons == ()
    assert sorted(each.id for each in arrived) == sorted(work.id for work in works())


def test_a_lost_workers_unfinished_rollouts_are_retried() -> None:
    chosen = works()
    pool = FakePool(2, {chosen[2].id: 1})
    arrived: list[Trajectory] = []
    found = run_on_workers(chosen, pool, on_finish=arrived.append)
    assert found.trajectories == in_process(chosen)
    ids = [work.id for work in chosen]
    assert pool.parts == [[ids[:4], ids[4:]], [[ids[2]], [ids[3]]]], "what was finished is not played again"
    assert found.losses == {ids[2]: 1, ids[3]: 1}
    assert found.reasons == ("death 0 of 0",)
    assert len(arrived) == len(chosen), "each once"


def test_a_rollout_that_always_kills_its_worker_is_recorded_as_failed_alone() -> None:
    chosen = works()
    pool = FakePool(2, {chosen[1].id: 99})
    arrived: list[Trajectory] = []
    found = run_on_workers(chosen, pool, retries=2, on_finish=arrived.append)
    broken = found.trajectories[1]
    assert broken.outcome == "environment_error" and broken.turns == () and broken.rows == ()
    assert broken.error == "ClusterError: its worker was lost 3 times, at last: death 96 of 0"
    honest = in_process(chosen)
    assert found.trajectories[:1] + found.trajectories[2:] == honest[:1] + honest[2:]
    assert replace(broken, turns=()).id == honest[1].id and broken.seed == honest[1].seed
    assert found.losses[chosen[1].id] == 3 and 98 not in found.losses.values()
    assert all(len(part) == 1 for call in pool.parts[2:] for part in call), "the last time each is alone"
    assert arrived[-1] == broken


def test_without_retries_a_lost_rollout_fails_at_once() -> None:
    chosen = works(3)
    found = run_on_workers(chosen, FakePool(3, {chosen[0].id: 1}), retries=0)
    assert [trajectory.outcome for trajectory in found.trajectories] == [
        "environment_error",
        "finished",
        "finished",
    ]
    assert found.losses == {chosen[0].id: 1}
    with pytest.raises(ValueError, match="retries must be 0 or more, got -1"):
        run_on_workers(chosen, FakePool(1), retries=-1)


def test_no_items_call_no_worker() -> None:
    pool = FakePool(2)
    assert run_on_workers([], pool).trajectories == []
    assert all(part == [] for part in pool.parts)


@given(st.integers(0, 40), st.integers(1, 9))
def test_items_are_split_evenly_in_order(count: int, workers: int) -> None:
    attempts = [WorkItem(Attempt(_task(index), 0, index), "k", "a@1", 0) for index in range(count)]
    parts = split_evenly(attempts, workers)
    assert [work for part in parts for work in part] == attempts
    assert len(parts) == min(count, workers)
    sizes = {len(part) for part in parts}
    assert not sizes or (max(sizes) - min(sizes) <= 1 and min(sizes) >= 1)


def _task(index: int) -> Task:
    return replace(TASKS[0], id=f"t{index}")
