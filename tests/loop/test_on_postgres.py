"""The loop and the queue of tasks on a pool that several processes share."""

import asyncio
import importlib
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.postgres_server import PostgresServer
from upturn.errors import StoreBusyError
from upturn.loop.online import Client, TaskQueue
from upturn.pool import Location, Pool, PoolUrl, ledger_problems
from upturn.pool.leases import holding
from upturn.records import Release, Task

CLIENT = Client("default")


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``toy_desk.py``: agents that solve sums and products, or refuse."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("toy_desk")


@pytest.fixture
def place(postgres_server: PostgresServer) -> PoolUrl:
    return postgres_server.clean_pool()


def served(toys: ModuleType, folder: Path, place: Location) -> list[Any]:
    """What a run left in its pool: serving, a canary to its verdict, and serving again."""
    settings = toys.with_canary(
        toys.config(("adder", "refuser"), pool={"path": str(place)}, tasks={"count": 48}), stages=(0.5, 1.0)
    )
    with toys.opened(folder / "run", settings) as context:
        incumbent = context.router.registry.served("adder").incumbent
        toys.serve(context, "serve", 48)
        toys.release(context, "release", (incumbent, toys.CANDIDATE), toys.GROUND)
        toys.serve(context, "serve-after", 48)
        context.finish()
    with Pool.open(place, read_only=True) as pool:
        assert list(ledger_problems(pool.engine)) == []
        decisions = [
            (choice.task_id, choice.chosen, choice.propensity) for choice in pool.decisions(tenant="default")
        ]
        verdicts = [(row.trajectory_id, row.verdict) for row in pool.selected(tenant="default")]
        states = [(state.stage, state.state) for state in pool.states(Release, pool.states(Release)[0].id)]
        return [decisions, verdicts, states]


def test_a_run_is_the_same_on_both_databases(toys: ModuleType, tmp_path: Path, place: PoolUrl) -> None:
    """To the last bit of every propensity: what was learned is in them."""
    on_server = served(toys, tmp_path / "a", place)
    assert on_server == served(toys, tmp_path / "b", tmp_path / "pool.db")
    assert len(on_server[0]) > 96


def test_a_run_is_done_by_one_process(
    toys: ModuleType, tmp_path: Path, place: PoolUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = toys.config(pool={"path": str(place)})
    with toys.opened(tmp_path / "a" / "run", settings):
        with toys.opened(tmp_path / "a" / "other", settings) as other:
            assert other.next_tasks(1)
        monkeypatch.setattr("upturn.loop.run.context.holding", partial(holding, seconds=0.1))
        with (
            pytest.raises(StoreBusyError, match="run run is being done by process"),
            toys.opened(tmp_path / "b" / "run", settings),
        ):
            raise AssertionError


@pytest.fixture
def runs(toys: ModuleType, tmp_path: Path, place: PoolUrl) -> Iterator[list[Any]]:
    """Two processes' services on one pool."""
    settings = toys.config(pool={"path": str(place)})
    with ExitStack() as stack:
        yield [stack.enter_context(toys.opened(tmp_path / name, settings)) for name in ("first", "second")]


async def test_tasks_are_run_once_and_by_another_process_once_the_first_is_gone(runs: list[Any]) -> None:
    queues = [TaskQueue(run.pool, run.service) for run in runs]
    tasks: list[Task] = list(runs[0].next_tasks(9))
    for queue in queues:
        queue.start()
    for number, task in enumerate(tasks[:6]):
        await queues[number % 2].submit(task, CLIENT)
    await _finished(queues[0], tasks[:6])
    await queues[0].stop()
    for task in tasks[6:]:
        await queues[1].submit(task, CLIENT)
    await _finished(queues[1], tasks)
    await queues[1].stop()
    attempted = [trajectory.task_id for trajectory in runs[0].pool.trajectories(tenant="default")]
    assert sorted(attempted) == sorted(task.id for task in tasks)


async def _finished(queue: TaskQueue, tasks: list[Task]) -> None:
    while {queue.find(task.id, CLIENT).state for task in tasks} != {"done"}:
        await asyncio.sleep(0.02)
