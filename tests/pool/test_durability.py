"""Acknowledged records survive ``kill -9``."""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import Forked, forked
from upturn.pool import Location, Pool, ledger_problems
from upturn.pool.database import integrity_problems
from upturn.pool.statistics import counts

WRITER = """
import sys
from upturn.pool import Pool
from upturn.records import Observation, Task, Trajectory

def run(location, start, has_journal):
    pool, number = Pool.open(location, has_journal=has_journal == "True"), int(start)
    while True:
        tasks = [Task(f"t{number}-{part}", "do " * 40, "mail", "office") for part in range(5)]
        if has_journal == "True":
            pool.submit_soon(*tasks).result()
        else:
            end = Observation("end")
            pool.append(
                *tasks,
                *(Trajectory(f"x{task.id}", task.id, "a@1", (), end, "finished", "rendered") for task in tasks),
            )
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
        number += 1
"""


@pytest.fixture(scope="module")
def writer() -> Iterator[Forked]:
    with forked(WRITER) as running:
        yield running


def acknowledged_until_killed(
    writer: Forked, location: Location, start: int, milliseconds: int, *, has_journal: bool = False
) -> list[int]:
    writer.start(str(location), str(start), str(has_journal))
    first = writer.line()
    time.sleep(milliseconds / 1000)
    writer.signal(signal.SIGKILL)
    lines, code = writer.end()
    assert code == -signal.SIGKILL
    return [int(line) for line in (first, *lines)]  # so short a line is written whole or not at all


def test_acknowledged_batches_survive_kill_nine_completely(writer: Forked, location: Location) -> None:
    acknowledged: list[int] = []
    random_times = random.Random(4)
    for repetition in range(3):
        start, milliseconds = repetition * 1_000_000, random_times.randrange(5, 150)
        acknowledged += acknowledged_until_killed(writer, location, start, milliseconds)
    with Pool.open(location) as pool:
        assert integrity_problems(pool.engine) == []
        assert list(ledger_problems(pool.engine)) == []
        ids = {task.id for task in pool.tasks(tenant="default")}
        stored = counts(pool, tenant="default")
    missing = [number for number in acknowledged for part in range(5) if f"t{number}-{part}" not in ids]
    assert missing == []
    assert stored.tasks % 5 == 0
    assert stored.tasks == stored.trajectories
    assert 0 <= stored.tasks // 5 - len(acknowledged) <= 3, "at most the batch in flight at each kill is extra"


def test_records_acknowledged_by_the_journal_survive_kill_nine(writer: Forked, tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    acknowledged: list[int] = []
    random_times = random.Random(5)
    for repetition in range(3):
        start, milliseconds = repetition * 1_000_000, random_times.randrange(5, 150)
        acknowledged += acknowledged_until_killed(writer, path, start, milliseconds, has_journal=True)
    with Pool.open(path) as pool:
        assert integrity_problems(pool.engine) == []
        ids = {task.id for task in pool.tasks(tenant="default")}
    missing = [number for number in acknowledged for part in range(5) if f"t{number}-{part}" not in ids]
    assert missing == []
