"""What is lost when writers are killed, and when a server is restarted under load."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event

from benchmarks.comparison import result
from benchmarks.measurement import Measurement
from benchmarks.pool.backends import Database
from benchmarks.pool.plan import Plan
from benchmarks.pool.workload import GROUP
from benchmarks.pool.writer import stored_groups
from upturn.pool import Pool, integrity_problems, ledger_problems
from upturn.records import Result

_LONGEST_LIFE_SECONDS = 0.3
_WRITERS = 4
_WRITES_BEFORE_A_RESTART = 8
_LONGEST_WAIT_SECONDS = 120.0


def measure_kills(plan: Plan, name: str, database: Database) -> Measurement:
    """Kills a writing process with ``kill -9`` at random moments, and counts what is missing afterwards."""
    place, draw = database.new_pool(), random.Random(0)
    acknowledged: list[str] = []
    for number in range(plan.kills):
        plan.log(f"{name}: kill {number + 1} of {plan.kills}")
        command = [sys.executable, "-m", "benchmarks.pool.writer", str(place), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None, "a pipe was asked for"
            first = writer.stdout.readline()
            time.sleep(draw.uniform(0.0, _LONGEST_LIFE_SECONDS))
            os.kill(writer.pid, signal.SIGKILL)
            lines = [first, *writer.stdout.read().splitlines(keepends=True)]
        acknowledged += [line.strip() for line in lines if line.endswith("\n")]
    with Pool.open(place) as pool:
        return Measurement(_losses(plan, pool, f"{name} kill -9", acknowledged), {"kills": plan.kills})


def measure_restarts(plan: Plan, name: str, database: Database) -> Measurement:
    """Restarts the server while four threads write to it; no results without a server of our own."""
    server = database.server
    if server is None:
        return Measurement(())
    place, is_over = database.new_pool(), Event()
    done = SimpleQueue[str]()

    def write(number: int, pool: Pool) -> list[str]:
        acknowledged: list[str] = []
        for task_id in stored_groups(pool, number):
            acknowledged.append(task_id)
            done.put(task_id)
            if is_over.is_set():
                break
        return acknowledged

    with Pool.open(place) as first, Pool.open(place) as second, ThreadPoolExecutor(_WRITERS) as threads:
        writers = [threads.submit(write, number, (first, second)[number % 2]) for number in range(_WRITERS)]
        for number in range(plan.restarts):
            plan.log(f"{name}: restart {number + 1} of {plan.restarts}")
            for _ in range(_WRITES_BEFORE_A_RESTART):
                done.get(timeout=_LONGEST_WAIT_SECONDS)
            server.stop(("immediate", "fast")[number % 2])
            server.start()
        is_over.set()
        acknowledged = [task_id for writer in writers for task_id in writer.result()]
        return Measurement(_losses(plan, first, f"{name} restart", acknowledged), {"restarts": plan.restarts})


def _losses(plan: Plan, pool: Pool, name: str, acknowledged: Collection[str]) -> tuple[Result, ...]:
    """``acknowledged``: the tasks of groups of trajectories."""
    tasks = [task.id for task in pool.tasks(tenant="default")]
    stored = {task_id: len(pool.trajectory_ids(task_id, tenant="default")) for task_id in tasks}
    in_part = sum(count != GROUP for count in stored.values())
    lost = sum(stored.get(task_id) != GROUP for task_id in acknowledged)
    problems = [*map(str, ledger_problems(pool.engine)), *integrity_problems(pool.engine)]
    bar = plan.bar(0.0, is_upper=True)
    return (
        result(f"{name}: acknowledged writes", float(len(acknowledged)), ""),
        result(f"{name}: acknowledged writes lost", float(lost), "", bar),
        result(f"{name}: writes stored in part", float(in_part), "", bar),
        result(f"{name}: problems of integrity", float(len(problems)), "", bar),
    )
