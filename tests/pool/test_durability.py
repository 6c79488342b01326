"""Acknowledged records survive ``kill -9``."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from upturn.pool import Location, Pool, ledger_problems
from upturn.pool.database import integrity_problems
from upturn.pool.statistics import counts

WRITER = """
import sys
from upturn.pool import Pool
from upturn.records import Observation, Task, Trajectory
pool = Pool.open(sys.argv[1])
number = int(sys.argv[2])
while True:
    tasks = [Task(f"t{number}-{part}", "do " * 40, "mail", "office") for part in range(5)]
    trajectories = [
        Trajectory(f"x{task.id}", task.id, "a@1", (), Observation("end"), "finished", "rendered") for task in tasks
    ]
    pool.append(*tasks, *trajectories)
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
    number += 1
"""


SOON = """
import sys
from upturn.pool import Pool
from upturn.records import Task
pool = Pool.open(sys.argv[1], has_journal=True)
number = int(sys.argv[2])
while True:
    tasks = [Task(f"t{number}-{part}", "do " * 40, "mail", "office") for part in range(5)]
    pool.submit_soon(*tasks).result()
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
    number += 1
"""


def acknowledged_until_killed(
    location: Location, start: int, milliseconds: int, program: str = WRITER
) -> list[int]:
    with subprocess.Popen(
        [sys.executable, "-c", program, str(location), str(start)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(milliseconds / 1000)
        os.kill(writer.pid, signal.SIGKILL)
        return [
            int(first),
            *(int(line) for line in writer.stdout.read().splitlines(keepends=True) if line[-1] == "\n"),
        ]


def test_acknowledged_batches_survive_kill_nine_completely(location: Location) -> None:
    acknowledged: list[int] = []
    random_times = random.Random(4)
    for repetition in range(3):
        acknowledged += acknowledged_until_killed(location, repetition * 1_000_000, random_times.randrange(5, 150))
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


def test_records_acknowledged_by_the_journal_survive_kill_nine(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    acknowledged: list[int] = []
    random_times = random.Random(5)
    for repetition in range(3):
        acknowledged += acknowledged_until_killed(
            path, repetition * 1_000_000, random_times.randrange(5, 150), SOON
        )
    with Pool.open(path) as pool:
        assert integrity_problems(pool.engine) == []
        ids = {task.id for task in pool.tasks(tenant="default")}
    missing = [number for number in acknowledged for part in range(5) if f"t{number}-{part}" not in ids]
    assert missing == []
