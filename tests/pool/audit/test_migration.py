"""A pool of an earlier version gets the log that writing it anew would make, and keeps what its chains found."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pool.migration import downgrade, upgrade
from upturn.pool import Pool, ledger_problems
from upturn.pool.access import KeyStore
from upturn.pool.database import writing_engine
from upturn.pool.schema import HEAD
from upturn.records import ApiKey, Evaluation, Release, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]
LOG = ("audit_entries", "audit_nodes", "audit_head", "erasures")


def migrate(path: Path, revision: str, *, is_up: bool) -> None:
    engine = writing_engine(path)
    (upgrade if is_up else downgrade)(engine, revision)
    engine.dispose()


def rows(path: Path, *tables: str) -> list[list[tuple[object, ...]]]:
    with sqlite3.connect(path) as raw:
        stored = [raw.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]
    raw.close()
    return stored


def problems(path: Path) -> list[str]:
    with Pool.open(path, read_only=True) as pool:
        return [str(problem) for problem in ledger_problems(pool.engine)]


@pytest.fixture
def path(tmp_path: Path, make_point: MakePoint) -> Path:
    """A closed pool with records, states and an act, over the boundary of a stored node."""
    release = Release("r", "nano", "nano@1", "nano@2", (0.1, 0.5), "canary", 0)
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(*(Task(f"many-{number}", "do", "mail", "office") for number in range(300)))
        for name in "ab":
            pool.append(*make_point(name), release)
    with KeyStore(tmp_path / "pool.db") as keys:
        keys.add(ApiKey("k", "d", "default", "web", ("client",), 1.0), who="ada")
    return tmp_path / "pool.db"


def test_down_and_up_again_gives_the_same_log(path: Path) -> None:
    before = rows(path, *LOG)
    assert len(before[0]) == 308
    assert len(before[1]) == 1
    migrate(path, "0008", is_up=False)
    chains = rows(path, "chains")
    assert {row[0]: row[1] for row in chains[0]} == {
        "admin_acts": 1, "evaluations": 2, "history": 1, "tasks": 302, "trajectories": 2
    }  # fmt: skip
    migrate(path, "0009", is_up=True)
    assert rows(path, *LOG) == before
    migrate(path, HEAD, is_up=True)
    assert problems(path) == []
    migrate(path, "0008", is_up=False)
    assert rows(path, "chains") == chains


def test_what_the_chains_found_is_still_reported(path: Path, make_point: MakePoint) -> None:
    migrate(path, "0008", is_up=False)
    with sqlite3.connect(path) as raw:
        raw.execute("DELETE FROM tasks WHERE id = 'many-7'")
        raw.execute("UPDATE trajectories SET seconds = 7 WHERE id = 'trajectory-a'")
    raw.close()
    with Pool.open(path) as pool:
        pool.append(*make_point("c"))
    assert problems(path) == [
        "tasks were changed before the audit log began: 301 rows, 302 were written",
        "trajectories were changed before the audit log began: its chain differs",
    ]
