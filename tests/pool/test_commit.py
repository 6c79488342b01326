from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import sleep

import pytest
from sqlalchemy import Connection, Engine, event, text

from upturn.errors import StoreError
from upturn.pool.commit import GroupCommitter
from upturn.pool.database import writing_engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    built = writing_engine(tmp_path / "any.db")
    with built.begin() as connection:
        connection.execute(text("CREATE TABLE numbers (number INTEGER PRIMARY KEY)"))
    yield built
    built.dispose()


def put(number: int, connection: Connection) -> int:
    connection.execute(text(f"INSERT INTO numbers VALUES ({number})"))
    return number


def stored(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT number FROM numbers ORDER BY number")).scalars())


def test_waiting_writers_share_one_commit(engine: Engine) -> None:
    commits: list[int] = []
    event.listen(engine, "commit", lambda _: commits.append(1))
    committer = GroupCommitter(engine)
    resume = Event()

    def slow(connection: Connection) -> int:
        assert resume.wait(timeout=30)
        return put(0, connection)

    with ThreadPoolExecutor(21) as threads:
        first = threads.submit(committer.run, slow)
        while committer._queue.qsize():
            sleep(0.001)
        others = [threads.submit(committer.run, lambda c, n=n: put(n, c)) for n in range(1, 21)]
        while committer._queue.qsize() < 20:
            sleep(0.001)
        resume.set()
        assert [first.result(timeout=30), *(other.result(timeout=30) for other in others)] == list(range(21))
    committer.close()
    assert len(commits) == 2
    assert stored(engine) == list(range(21))


def test_a_database_that_cannot_be_opened_is_reported_and_nobody_waits(tmp_path: Path) -> None:
    unusable = writing_engine(tmp_path / "no-such-folder" / "any.db")
    with pytest.raises(
        StoreError, match="unable to open database file; make it and its folder readable and writable"
    ):
        GroupCommitter(unusable)


def test_only_the_failed_write_is_undone(engine: Engine) -> None:
    committer = GroupCommitter(engine)

    def incomplete(connection: Connection) -> None:
        put(1, connection)
        raise KeyError("half way")

    committer.run(lambda connection: put(2, connection))
    with pytest.raises(KeyError, match="half way"):
        committer.run(incomplete)
    with pytest.raises(StoreError, match="rejected the write"):
        committer.run(lambda connection: put(2, connection))
    committer.run(lambda connection: put(3, connection))
    committer.close()
    assert stored(engine) == [2, 3]


def test_closing_finishes_waiting_writes_and_rejects_new_ones(engine: Engine) -> None:
    committer = GroupCommitter(engine)
    committer.run(lambda connection: put(1, connection))
    committer.close()
    committer.close()
    with pytest.raises(StoreError, match="closed"):
        committer.run(lambda connection: put(2, connection))
    assert stored(engine) == [1]


def test_failed_commit_reaches_every_writer(engine: Engine) -> None:
    committer = GroupCommitter(engine)

    def end_transaction(connection: Connection) -> None:
        connection.exec_driver_sql("ROLLBACK")

    with pytest.raises(StoreError):
        committer.run(end_transaction)
    committer.run(lambda connection: put(5, connection))
    committer.close()
    assert stored(engine) == [5]


def test_aborted_transaction_is_acknowledged_to_no_writer(engine: Engine) -> None:
    """Like SQLite on a full disk: the failed statement aborts the whole transaction."""
    committer = GroupCommitter(engine)
    resume = Event()

    def slow(connection: Connection) -> int:
        assert resume.wait(timeout=30)
        return put(1, connection)

    def abort(connection: Connection) -> None:
        connection.exec_driver_sql("ROLLBACK")
        raise OSError("no space left")

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(committer.run, slow)
        while committer._queue.qsize():
            sleep(0.001)
        waiting = [
            threads.submit(committer.run, work) for work in (lambda c: put(2, c), abort, lambda c: put(3, c))
        ]
        while committer._queue.qsize() < 3:
            sleep(0.001)
        resume.set()
        assert first.result(timeout=30) == 1
        failures = [other.exception(timeout=30) for other in waiting]
    assert [type(failure) for failure in failures] == [StoreError] * 3
    assert {str(failure) for failure in failures} == {"the database aborted, nothing is stored: no space left"}
    committer.run(lambda connection: put(4, connection))
    committer.close()
    assert stored(engine) == [1, 4]
