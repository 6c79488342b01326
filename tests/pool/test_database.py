"""Errors for full, damaged, foreign, newer and read-only files name the file and a remedy, and never change it."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text

from upturn.errors import StoreError
from upturn.pool import Location, Pool
from upturn.pool.database import driver_of, reading_engine
from upturn.pool.database.sqlite import SqliteBackend
from upturn.pool.schema import HEAD
from upturn.pool.store import WriterLock
from upturn.records import Task

TASKS = [Task(f"t{number}", "do " + "x" * 2000, "mail", "office") for number in range(40)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed pool with 40 tasks."""
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(*TASKS)
    return tmp_path / "pool.db"


def task_ids(path: Path) -> list[str]:
    with Pool.open(path, read_only=True) as pool:
        return [task.id for task in pool.tasks(tenant="default")]


def test_full_disk_is_reported_and_acknowledged_records_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small_disk(self: SqliteBackend) -> Engine:
        engine = whole_disk(self)
        event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA max_page_count = 60").close())
        return engine

    whole_disk = SqliteBackend.writing_engine
    monkeypatch.setattr(SqliteBackend, "writing_engine", small_disk)
    more = [Task(f"u{number}", "do " + "x" * 2000, "mail", "office") for number in range(200)]
    with Pool.open(path) as pool:
        with pytest.raises(StoreError, match=r"pool\.db' cannot be used .* is full; free some space on its disk"):
            pool.append(*more)
        assert pool.append(Task("small", "do", "mail", "office")) == 1
    assert task_ids(path) == [*(task.id for task in TASKS), "small"]


def test_lock_on_a_full_disk_still_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    lock = WriterLock(tmp_path / "pool.db")
    with pytest.raises(StoreError, match="is being written by process unknown"):
        WriterLock(tmp_path / "pool.db")
    lock.release()


def test_pool_in_a_read_only_folder_is_read_without_creating_files(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(file.name for file in path.parent.iterdir())
    monkeypatch.setattr(os, "access", lambda where, mode: not (mode == os.W_OK and Path(where) == path.parent))
    engine = reading_engine(path)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM tasks")).scalar() == 40
        assert sorted(file.name for file in path.parent.iterdir()) == before
    engine.dispose()


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a database, but long enough to be read as one " * 20, "choose another path"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "choose another path"),
    ],
)
def test_file_that_is_not_a_database_stays_unchanged(
    tmp_path: Path, read_only: bool, content: bytes, message: str
) -> None:
    path = tmp_path / "pool.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=message):
        Pool.open(path, read_only=read_only)
    assert path.read_bytes() == content


def test_empty_file_is_not_a_pool(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    path.touch()
    with pytest.raises(StoreError, match="is a database, but not a pool; choose another path"):
        Pool.open(path, read_only=True)


def test_newer_pool_is_rejected_for_readers_too(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    for read_only in (True, False):
        with pytest.raises(StoreError, match=f"reads up to '{HEAD}'; use the version of Upturn that wrote it"):
            Pool.open(path, read_only=read_only)


def test_error_of_an_older_pool_tells_readers_how_to_upgrade_it(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '0000'")
    raw.close()
    with pytest.raises(StoreError, match=r"older schema revision '0000'.*open it once for writing"):
        Pool.open(path, read_only=True)


def test_pages_damaged_after_opening_are_reported(path: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    shutil.copy(path, damaged)
    pages = bytearray(damaged.read_bytes())
    size = 4096
    for start in range(0, len(pages), size):
        if b"xxxxxxxx" in pages[start : start + size]:
            pages[start : start + 200] = b"\xff" * 200
    damaged.write_bytes(pages)
    with (
        Pool.open(damaged, read_only=True) as pool,
        pytest.raises(StoreError, match=r"damaged\.db.* malformed; restore a copy of it"),
    ):
        list(pool.tasks(tenant="default"))


def test_damaged_record_is_reported_with_its_id(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE tasks SET fields = '{' WHERE id = 't7'")
    raw.close()
    with (
        Pool.open(path, read_only=True) as pool,
        pytest.raises(StoreError, match="the stored record 't7' is damaged: not a Task"),
    ):
        list(pool.tasks(tenant="default"))


def test_a_connection_that_comes_back_after_the_end_is_closed(location: Location) -> None:
    with Pool.open(location):
        pass
    engine = reading_engine(location)
    connection, kept = engine.connect(), engine.connect()
    drivers = driver_of(connection), driver_of(kept)
    kept.close()
    engine.dispose()
    assert connection.execute(text("SELECT 1")).scalar() == 1  # a thread that is not done yet
    connection.close()
    for driver in drivers:
        with pytest.raises(Exception, match=r"closed"):
            driver.execute("SELECT 1")
    with engine.connect() as again:
        assert again.execute(text("SELECT 1")).scalar() == 1
    engine.dispose()
