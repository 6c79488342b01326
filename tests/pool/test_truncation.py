"""A pool's file, or its log of writes, that is cut off anywhere is an earlier state or is refused; no mixture."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from upturn.errors import StoreError
from upturn.pool import Pool, integrity_problems, ledger_problems
from upturn.records import Evaluation, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]

Contents = dict[str, list[tuple[Any, ...]]]
"""Rows by table."""

PAGE = 4096
WAL_HEADER, FRAME_HEADER = 32, 24
FRAME = FRAME_HEADER + PAGE
WRITES = 2


class Written(NamedTuple):
    """A copy of a pool and its log while it was open."""

    path: Path
    states: list[Contents]
    """What it had before and after each write; all of them are in the log, none in the file."""


@pytest.fixture
def written(tmp_path: Path, make_point: MakePoint) -> Written:
    path, copy = tmp_path / "pool.db", tmp_path / "copy.db"
    Pool.open(path).close()
    states = [contents(path)]
    with Pool.open(path) as pool:
        for number in range(WRITES):
            pool.append(*make_point(str(number)))
            states.append(contents(path))
        for ending in ("", "-wal"):
            shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
    return Written(copy, states)


def contents(path: Path) -> Contents:
    """Returns all rows of all tables."""
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}


def cuts(log: bytes) -> Iterator[int]:
    """Yields the start of the log, of each frame, and a place inside of each frame."""
    yield 0
    for start in range(WAL_HEADER, len(log), FRAME):
        yield start
        yield start + FRAME // 2
    yield len(log)


def test_a_log_cut_at_every_frame_has_the_writes_before_it(written: Written) -> None:
    path, states = written
    log, body = path.with_name("copy.db-wal").read_bytes(), path.read_bytes()
    read: list[int] = []
    for cut in cuts(log):
        path.write_bytes(body)
        path.with_name("copy.db-wal").write_bytes(log[:cut])
        path.with_name("copy.db-shm").unlink(missing_ok=True)
        state = states.index(contents(path))
        if state not in read:
            with Pool.open(path, read_only=True) as pool:
                assert integrity_problems(pool.engine) == []
                assert list(ledger_problems(pool.engine)) == []
        read.append(state)
    assert read == sorted(read), "a longer log has no fewer writes"
    assert set(read) == set(range(WRITES + 1))


def test_a_file_cut_at_every_page_is_refused_with_its_name(written: Written) -> None:
    path, states = written
    with Pool.open(path):  # moves the log into the file
        pass
    body = path.read_bytes()
    for cut in range(0, len(body), PAGE):
        path.write_bytes(body[:cut])
        with pytest.raises(StoreError, match=r"copy\.db"):
            Pool.open(path, read_only=True)
    path.write_bytes(body)
    assert contents(path) == states[-1]
