"""Records are durable in the journal before they are in the tables, and get there whatever happens in between."""

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from upturn.errors import StoreConflictError, StoreError
from upturn.pool import Pool, ready_row
from upturn.pool.batch import prepare
from upturn.pool.database import integrity_problems
from upturn.pool.journal import Journal, Rows, journal_of, read_journal
from upturn.pool.journal.entries import open_entries
from upturn.records import Feedback, Task


def task(name: str, size: int = 1) -> Task:
    return Task(name, "x" * size, "mail", "office")


def rows(*records: Task | Feedback) -> Rows:
    return prepare(records, None, None).rows


def read(path: Path, copy: Path) -> list[str]:
    """The ids in a journal that another thread has open, as a process finds them after a kill."""
    for ending in ("", "-wal"):
        if path.with_name(path.name + ending).exists():
            shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    return [record.id for records in read_journal(copy) for record in records]


class Tables:
    """Tables that take rows when a test says so."""

    def __init__(self) -> None:
        self.error: StoreError | None = None
        self.taken: str | None = None
        """An id that is stored with other content."""
        self.is_held = False
        self.waiting: list[Future[int]] = []
        self.stored: list[str] = []

    def __call__(self, given: Rows) -> Future[int]:
        future: Future[int] = Future()
        ids = [str(row["id"]) for group in given.values() for row in group]
        if self.error is not None:
            future.set_exception(self.error)
        elif self.taken in ids:
            future.set_exception(StoreConflictError("stored with other content"))
        else:
            self.stored += ids
            if self.is_held:
                self.waiting.append(future)
            else:
                future.set_result(len(ids))
        return future

    def release(self) -> None:
        self.is_held = False
        for future in self.waiting:
            future.set_result(1)


@pytest.fixture
def tables() -> Tables:
    return Tables()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pool.db-calls"


@pytest.fixture
def journal(path: Path, tables: Tables) -> Iterator[Journal]:
    journal = Journal(path, tables)
    yield journal
    journal.close()


def append(journal: Journal, *names: str) -> None:
    for name in names:
        journal.append(rows(task(name))).result(timeout=30)


def test_what_is_acknowledged_can_be_read_before_the_tables_have_it(
    journal: Journal, path: Path, tables: Tables, tmp_path: Path
) -> None:
    tables.is_held = True
    append(journal, "a", "b")
    assert read(path, tmp_path / "copy") == ["a", "b"]
    tables.release()
    journal.settle().result(timeout=30)
    assert tables.stored == ["a", "b"]


def test_entries_that_are_stored_are_deleted(journal: Journal, path: Path, tables: Tables, tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(100)]
    append(journal, *names)
    journal.settle().result(timeout=30)
    append(journal, "last")
    entries = read(path, tmp_path / "copy")
    assert entries[-1] == "last"
    assert len(entries) <= 64
    journal.settle().result(timeout=30)
    assert tables.stored == [*names, "last"]


def test_entries_that_are_not_stored_are_kept(journal: Journal, path: Path, tables: Tables, tmp_path: Path) -> None:
    append(journal, *[f"t{number}" for number in range(100)])
    journal.settle().result(timeout=30)
    tables.is_held = True
    append(journal, *[f"u{number}" for number in range(100)])
    assert read(path, tmp_path / "copy")[-100:] == [f"u{number}" for number in range(100)]
    tables.release()


def test_an_idle_journal_is_emptied(
    path: Path, tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.pool.journal.journal._IDLE_SECONDS", 0.01)
    journal = Journal(path, tables)
    append(journal, "a")
    while read(path, tmp_path / "copy"):
        pass
    assert tables.stored == ["a"]
    journal.close()


def test_closing_stores_everything_and_empties_the_file(path: Path, tables: Tables, tmp_path: Path) -> None:
    journal = Journal(path, tables)
    append(journal, "a")
    journal.close()
    journal.close()
    assert tables.stored == ["a"]
    assert read(path, tmp_path / "copy") == []
    with pytest.raises(StoreError, match="closed"):
        journal.append(rows(task("b")))


def test_nothing_is_acknowledged_while_the_tables_cannot_take_records_and_nothing_is_lost(
    journal: Journal, path: Path, tables: Tables, tmp_path: Path
) -> None:
    tables.error = StoreError("the disk is full")
    append(journal, "a")
    with pytest.raises(StoreError, match="full"):
        journal.settle().result(timeout=30)
    with pytest.raises(StoreError, match="full"):
        append(journal, "b")
    assert read(path, tmp_path / "copy") == ["a"]
    tables.error = None
    append(journal, "c")
    journal.settle().result(timeout=30)
    assert tables.stored == ["a", "c"]


def test_entries_stay_in_the_file_if_the_tables_fail_until_the_end(
    path: Path, tables: Tables, tmp_path: Path
) -> None:
    journal = Journal(path, tables)
    tables.error = StoreError("the disk is full")
    append(journal, "a")
    journal.close()
    assert read(path, tmp_path / "copy") == ["a"]


def test_a_record_whose_id_is_taken_does_not_keep_others_out(
    journal: Journal, tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    tables.taken = "b"
    futures = [journal.append(rows(task(name))) for name in ("a", "b", "c")]
    for future in futures:
        future.result(timeout=30)
    journal.settle().result(timeout=30)
    assert sorted(tables.stored) == ["a", "c"]
    assert "an acknowledged record is not stored" in caplog.text


def test_a_disk_without_space_is_an_error_of_the_caller(journal: Journal, tables: Tables) -> None:
    append(journal, "a")
    pages = journal._entries.execute("PRAGMA page_count").fetchone()[0]
    journal._entries.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreError, match=r"pool\.db-calls' cannot be used .* is full; free some space"):
        journal.append(rows(task("b", 100_000))).result(timeout=30)
    append(journal, "c")
    journal.settle().result(timeout=30)
    assert tables.stored == ["a", "c"]


def stored(path: Path) -> Sequence[str]:
    with Pool.open(path, read_only=True) as pool:
        return [found.id for found in pool.tasks(tenant="default")]


def test_opening_a_pool_stores_what_a_killed_process_had_acknowledged(tmp_path: Path) -> None:
    path, copy = tmp_path / "pool.db", tmp_path / "copy.db"
    with Pool.open(path) as pool:
        pool.append(task("first"))
    shutil.copy(path, copy)
    with Pool.open(path, has_journal=True) as pool:
        pool.submit_soon(task("a"), task("b")).result(timeout=30)
        assert read(journal_of(path), journal_of(copy)) == ["a", "b"]  # the copy is as a kill would leave it
        pool.settled().result(timeout=30)
        assert [found.id for found in pool.tasks(tenant="default")] == ["first", "a", "b"]
    assert read(journal_of(path), tmp_path / "empty") == []
    for _ in range(2):
        with Pool.open(copy, has_journal=True) as pool:
            assert [found.id for found in pool.tasks(tenant="default")] == ["first", "a", "b"]
            assert integrity_problems(pool.engine) == []
    assert stored(path) == stored(copy)


def test_a_journal_that_cannot_be_read_keeps_the_pool_closed_and_the_file(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    Pool.open(path).close()
    with open_entries(journal_of(path)) as connection:
        connection.execute("""INSERT INTO entries VALUES (1, '[["Task",{"id":"a"}]]')""")
    connection.close()
    for _ in range(2):
        with pytest.raises(StoreError, match="acknowledged records that this version cannot read: not a Task"):
            Pool.open(path)
    journal_of(path).write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"pool\.db-calls' cannot be used as a pool: file is not a database"):
        Pool.open(path)
    assert journal_of(path).exists()


def test_a_pool_without_a_journal_stores_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with Pool.open(path) as pool:
        pool.submit_soon(task("a")).result(timeout=30)
        assert [found.id for found in pool.tasks(tenant="default")] == ["a"]
        pool.settled().result(timeout=30)
    assert not journal_of(path).exists()


@pytest.mark.parametrize("has_journal", [True, False])
def test_a_row_that_was_made_before_is_stored_as_its_record(tmp_path: Path, has_journal: bool) -> None:
    with Pool.open(tmp_path / "pool.db", has_journal=has_journal) as pool:
        pool.submit_soon(ready_row(task("a")), task("b")).result(timeout=30)
        pool.settled().result(timeout=30)
        assert pool.append(task("a"), task("b")) == 0, "both are stored already, with this content"
