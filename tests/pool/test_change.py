"""Changes of states beside another writing process."""

import subprocess
import sys
from pathlib import Path

import pytest

from upturn.errors import StoreBusyError, StoreError
from upturn.pool import Pool, ledger_problems
from upturn.pool.reader import States
from upturn.records import AgentLimits, Task

_OTHERS = """
import os, sys
from upturn.pool import Pool
from upturn.records import AgentLimits
is_first = os.fork() > 0
with Pool.open(sys.argv[1], beside=True) as pool:
    for number in range(20):
        pool.change(AgentLimits, lambda _: AgentLimits("nano", f"{is_first} {number}"))
if is_first:
    sys.exit(os.wait()[1])
"""
"""Two processes that make 20 changes each."""


def add_one(states: States[AgentLimits]) -> AgentLimits:
    current = states.get("nano")
    return AgentLimits("nano", "counted", max_concurrent=1 + ((current and current.max_concurrent) or 0))


def test_a_change_reads_what_it_replaces(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "pool.db") as pool, Pool.open(tmp_path / "pool.db", beside=True) as other:
        for writer in (pool, other, pool, other):
            writer.change(AgentLimits, add_one)
        assert [state.max_concurrent for state in pool.states(AgentLimits, "nano")] == [1, 2, 3, 4]

        def fail(states: States[AgentLimits]) -> AgentLimits:
            raise ValueError(states.all()[0].max_concurrent)

        with pytest.raises(ValueError, match="4"):
            other.change(AgentLimits, fail)
        assert [state.max_concurrent for state in pool.states(AgentLimits)] == [4]


def test_two_processes_and_the_writer_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with Pool.open(path) as pool:
        others = subprocess.Popen([sys.executable, "-c", _OTHERS, str(path)])
        tasks = [Task(f"t{number}", "do", "mail", "office") for number in range(200)]
        for task in tasks:
            pool.append(task)
        assert others.wait() == 0
        pool.append(Task("last", "do", "mail", "office"))
        assert len(list(pool.tasks(tenant="default"))) == 201
        assert len(pool.states(AgentLimits, "nano")) == 40
        assert list(ledger_problems(pool.engine)) == []


def test_only_one_process_writes_all_the_time_and_a_change_needs_a_pool(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with pytest.raises(StoreError, match="no pool at"):
        Pool.open(path, beside=True)
    with Pool.open(path), pytest.raises(StoreBusyError):
        Pool.open(path)
    with Pool.open(path, beside=True), Pool.open(path) as pool:  # a change does not keep a service from starting
        pool.change(AgentLimits, add_one)
