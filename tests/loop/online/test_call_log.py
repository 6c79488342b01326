"""Calls are durable when ``store`` returns, few of them by the journal and many together in the tables."""

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from upturn.errors import RecordError
from upturn.loop.online import CallLog
from upturn.pool import Pool
from upturn.records import Task


def task(name: str, instruction: str = "do") -> Task:
    return Task(name, instruction, "mail", "office")


def names(pool: Pool) -> list[str]:
    return [found.id for found in pool.tasks(tenant="default")]


async def test_few_calls_go_to_the_journal_and_many_to_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon: list[str] = []
    with Pool.open(tmp_path / "pool.db", has_journal=True) as pool:
        submit_soon = pool.submit_soon

        def noted(*records: Task) -> Future[Any]:
            soon.extend(record.id for record in records)
            return submit_soon(*records)

        monkeypatch.setattr(pool, "submit_soon", noted)
        seconds = 0.0
        log = CallLog(pool, timer=lambda: seconds)
        for number in range(40):
            await log.store([task(f"t{number}")])
        assert soon == [f"t{number}" for number in range(31)], "the 32nd came within no time"
        assert "t39" in names(pool), "what goes to the tables is seen at once"
        await log.settle()
        assert sorted(names(pool)) == sorted(f"t{number}" for number in range(40))
        seconds = 1.0
        await log.store([task("later")])
        assert soon[-1] == "later"
        await log.drain()
        assert names(pool)[-1] == "later"


async def test_one_call_that_cannot_be_stored_does_not_keep_others_out(tmp_path: Path) -> None:
    bad = task("bad", "\ud800")
    with Pool.open(tmp_path / "pool.db", has_journal=True) as pool:
        log = CallLog(pool)
        results = await asyncio.gather(
            *(log.store_now([record]) for record in (task("a"), bad, task("b"))), return_exceptions=True
        )
        assert [type(result) for result in results] == [type(None), RecordError, type(None)]
        assert names(pool) == ["a", "b"]
        with pytest.raises(RecordError):
            await log.store([bad])
        await log.store([task("c")])
        await log.settle()
        assert names(pool) == ["a", "b", "c"]
