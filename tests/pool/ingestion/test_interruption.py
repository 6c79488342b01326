"""Imports that are killed or lose their database, and go on: the pool is that of an import without interruption."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select

from upturn.errors import StoreError
from upturn.pool import Location, Pool, PoolUrl, ledger_problems, schema
from upturn.pool.database.postgres_driver import PostgresDriver
from upturn.pool.database.sqlite_driver import SqliteDriver
from upturn.pool.ingestion import IngestOptions, importer, ingest

PAGES = 4


@pytest.fixture(autouse=True)
def _short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "_LINES_PER_PAGE", 3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Four pages: equal conversations, a bad line, a preference, and an unknown key."""
    rows: list[Any] = [talk(name) for name in "aab"] + [talk("c"), "not a conversation", talk("a")]
    rows += [talk(name, colour="red") for name in "ddd"] + [talk("e")]
    path = tmp_path / "talks.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def talk(answer: str, **extra: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": answer}]
    return {"messages": messages, "reward": 1.0, **extra}


def contents(location: Location) -> dict[str, list[Any]]:
    """All rows that an import writes, without their times and, beside trajectories, their order."""
    kept: dict[str, list[Any]] = {}
    with Pool.open(location, read_only=True) as pool, pool.engine.connect() as connection:
        assert list(ledger_problems(pool.engine)) == []
        for table in (schema.tasks, schema.trajectories, schema.evaluations):
            query = select(table.c.id, table.c.digest).order_by(table.c.sequence)
            kept[table.name] = list(connection.execute(query).all())
        for table in (schema.places, schema.quarantine, schema.imports):
            columns = [column for column in table.c if column.name not in ("recorded_at", "path")]
            kept[table.name] = sorted(map(tuple, connection.execute(select(*columns))), key=repr)
    return kept


def whole(file: Path, folder: Path) -> dict[str, list[Any]]:
    with Pool.open(folder / "whole.db") as pool:
        assert ingest(pool, file, IngestOptions("chat")).added == 9
    return contents(folder / "whole.db")


def killed(location: Location, file: Path, page: int, moment: str) -> None:
    """Imports in a process that is killed at a page: before it is sent, while it is stored, or after that."""
    child = os.fork()
    if child == 0:
        try:
            submit, count = Pool.submit, 0

            def submit_or_die(pool: Pool, *records: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count < page:
                    return submit(pool, *records, **options)
                if moment != "before":
                    future = submit(pool, *records, **options)
                    if moment == "after":
                        future.result()
                os.kill(os.getpid(), signal.SIGKILL)
                raise AssertionError

            Pool.submit = submit_or_die  # type: ignore[method-assign, assignment]
            with Pool.open(location) as pool:
                ingest(pool, file, IngestOptions("chat"))
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_an_import_that_was_killed_goes_on(location: Location, file: Path, tmp_path: Path, moment: str) -> None:
    expected = whole(file, tmp_path)
    with Pool.open(location):
        pass
    for _ in range(PAGES - 1):
        killed(location, file, 2 if moment == "before" else 1, moment)  # each stores a page at most
    with Pool.open(location) as pool:
        ingest(pool, file, IngestOptions("chat"))
    assert contents(location) == expected


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, location: Location, writes: int) -> Iterator[None]:
    """After so many writes, every further one fails."""
    is_url = isinstance(location, PoolUrl)
    driver: Any = PostgresDriver if is_url else SqliteDriver
    left, execute = writes, driver.execute

    def limited(this: Any, raw: Any, statement: str, rows: Any) -> Any:
        nonlocal left
        if not statement.startswith("SELECT"):
            left -= 1
            if left < 0:
                if is_url:
                    raise psycopg.errors.DiskFull("no space left on device")
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorname = "SQLITE_FULL"
                raise error
        return execute(this, raw, statement, rows)

    with monkeypatch.context() as patch:
        patch.setattr(driver, "execute", limited)
        yield


def test_a_disk_that_is_full_keeps_whole_pages(
    location: Location, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole(file, tmp_path)
    refused = 0
    for writes in range(0, 30, 5):
        try:
            with full_disk(monkeypatch, location, writes), Pool.open(location) as pool:
                ingest(pool, file, IngestOptions("chat"))
        except StoreError as exc:
            refused += 1
            assert "acknowledged records are safe" in str(exc)
            assert "space" in str(exc)
        stored = contents(location)
        for name, rows in stored.items():
            if name in ("tasks", "trajectories", "evaluations"):
                assert rows == expected[name][: len(rows)]
        assert len(stored["trajectories"]) == len(stored["evaluations"])
        assert len(stored["trajectories"]) in {0, 3, 5, 8, 9}
    assert refused > 2
    with Pool.open(location) as pool:
        ingest(pool, file, IngestOptions("chat"))
    assert contents(location) == expected
