"""Faults of the database: a failing write at every place, a lost transaction, a server that restarts under load."""

import random
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import psycopg
import pytest

from tests.postgres_server import PostgresServer
from upturn.errors import StoreError
from upturn.pool import Location, Pool, PoolUrl, RolloutKey, ledger_problems
from upturn.pool.database import integrity_problems
from upturn.pool.database.postgres_driver import PostgresDriver
from upturn.pool.database.sqlite_driver import SqliteDriver
from upturn.pool.statistics import counts
from upturn.records import Evaluation, Release, Run, Task, Trajectory

Point = tuple[Task, Trajectory, Evaluation]
MakePoint = Callable[..., Point]


class Faults:
    """Lets the write with a number fail, as a full disk does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, location: Location) -> None:
        self.until_fault = 0
        """0 = none fails."""
        is_url = isinstance(location, PoolUrl)
        driver: Any = PostgresDriver if is_url else SqliteDriver
        error: Exception = (
            psycopg.errors.DiskFull("no space") if is_url else sqlite3.OperationalError("disk is full")
        )
        execute, copy_rows = driver.execute, driver.copy_rows

        def count() -> None:
            if self.until_fault:
                self.until_fault -= 1
                if not self.until_fault:
                    raise error

        def failing(this: Any, raw: Any, statement: str, rows: Sequence[Any]) -> Any:
            if not statement.startswith("SELECT"):
                count()
            return execute(this, raw, statement, rows)

        def failing_copy(this: Any, raw: Any, table: Any, rows: Sequence[Any]) -> Any:
            count()
            return copy_rows(this, raw, table, rows)

        monkeypatch.setattr(driver, "execute", failing)
        monkeypatch.setattr(driver, "copy_rows", failing_copy)


def test_a_fault_at_every_write_leaves_the_old_state_or_the_new_one(
    location: Location, make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(monkeypatch, location)
    with Pool.open(location) as pool:
        stored = failed = 0
        for number in range(1, 100):
            point = make_point(str(number))
            records = (*point, Release(f"r{number}", "nano", "nano@1", "nano@2", (0.1, 0.5), "canary", 0))
            key = RolloutKey("run", number)
            faults.until_fault = number
            try:
                pool.append(*records, rollout=key)
            except StoreError as exc:
                assert "acknowledged records are safe" in str(exc) or "choose another path" in str(exc)
                failed += 1
            else:
                stored += 1
            was_reached, faults.until_fault = faults.until_fault == 0, 0
            assert counts(pool, tenant="default") == (stored, 0, stored, stored, 0)
            assert len(pool.states(Release)) == stored
            if not was_reached:
                break
            assert pool.append(*records, rollout=key) == 4, "the same write works once the fault is gone"
            stored += 1
        assert failed == number - 1 >= 4, "each write of the batch has failed once"
        assert list(ledger_problems(pool.engine)) == []
        assert integrity_problems(pool.engine) == []


def test_with_faults_in_shared_transactions_what_is_acknowledged_is_what_is_stored(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(monkeypatch, location)
    draws = random.Random(3)
    with Pool.open(location) as pool:
        acknowledged: set[str] = set()
        for wave in range(10):
            faults.until_fault = draws.randrange(1, 16)
            tasks = [Task(f"t{wave}-{number}", "do", "mail", "office") for number in range(8)]
            for task, future in [(task, pool.submit(task, Run(task.id, "demo", "", 0, ""))) for task in tasks]:
                if future.exception() is None:
                    acknowledged.add(task.id)
            faults.until_fault = 0
        assert {task.id for task in pool.tasks(tenant="default")} == acknowledged
        assert {run.id for run in pool.states(Run)} == acknowledged
        assert 10 <= len(acknowledged) < 80
        assert list(ledger_problems(pool.engine)) == []


def test_a_server_that_restarts_under_load_loses_nothing_acknowledged(
    postgres_server: PostgresServer,
) -> None:
    server = postgres_server.own
    if server is None:
        pytest.skip("the given server is not ours to restart")
    place, is_over = postgres_server.clean_pool(), Event()

    def write(writer: int, pool: Pool) -> list[str]:
        acknowledged = []
        for number in range(10_000):
            if is_over.is_set():
                break
            pair = [Task(f"t{writer}-{number}-{part}", "do", "mail", "office") for part in "ab"]
            assert pool.append(*pair) == 2
            acknowledged += [task.id for task in pair]
        return acknowledged

    with Pool.open(place) as first, Pool.open(place) as second, ThreadPoolExecutor(4) as threads:
        writers = [threads.submit(write, number, (first, second)[number % 2]) for number in range(4)]
        for how in ("immediate", "fast"):
            server.stop(how)
            server.start()
        is_over.set()
        acknowledged = [name for writer in writers for name in writer.result(timeout=60)]
        names = [task.id for task in first.tasks(tenant="default")]
        assert sorted(names) == sorted(acknowledged), "no write was refused, lost or stored twice"
        assert list(ledger_problems(first.engine)) == []
        assert integrity_problems(first.engine) == []
