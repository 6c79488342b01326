"""Group commit: concurrent writers share one transaction and one flush to the disk.

Each write runs in its own savepoint: if it fails, it is undone and its caller gets the error, and the others are
committed. If the database aborts the whole transaction, e.g. for a full disk, all callers get the error. A call
returns after the commit.
"""

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError, StatementError

from upturn.errors import StoreError
from upturn.pool.database import Savepoint

ResultT = TypeVar("ResultT")

_LARGEST_GROUP = 256
"""Maximum number of writes in one transaction; it limits how long the first one waits."""


class _Write(NamedTuple):
    run: Callable[[Connection], Any]
    future: Future[Any]


class GroupCommitter:
    """A thread that does all writing to one engine."""

    def __init__(
        self,
        engine: Engine,
        on_begin: Callable[[Connection], object] = lambda _: None,
        on_commit: Callable[[Connection], object] = lambda _: None,
    ) -> None:
        """``on_begin`` is called at the start of every transaction, which then excludes other writers.

        ``on_commit`` is called at its end, for what all writes of the transaction share; if it raises, all are
        undone. Raises StoreError if the database cannot be opened for writing.
        """
        engine.connect().close()  # an error in the thread would leave its callers waiting
        self._engine = engine
        self._on_begin = on_begin
        self._on_commit = on_commit
        self._queue: SimpleQueue[_Write | None] = SimpleQueue()
        self._gate = Lock()
        self._is_open = True
        self._thread = Thread(target=self._serve, name="upturn-pool-writer", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Returns the result of ``work`` once it is durable; see ``submit``."""
        return self.submit(work).result()

    def submit(self, work: Callable[[Connection], ResultT]) -> Future[ResultT]:
        """Returns a future with the result of ``work``, which is done once it is durable.

        If ``work`` raises, only it is undone. StoreError is raised if the committer is closed, and is the future's
        error if the database rejects the write or the commit.
        """
        future: Future[ResultT] = Future()
        with self._gate:
            if not self._is_open:
                raise StoreError("the pool is closed; open it again to write")
            self._queue.put(_Write(work, future))
        return future

    def close(self) -> None:
        """Finishes the waiting writes, then stops the thread. Closing twice is allowed."""
        with self._gate:
            if self._is_open:
                self._is_open = False
                self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        is_last = False
        with self._engine.connect() as connection:
            while not is_last:
                group, is_last = self._next_group()
                if group:
                    self._commit(connection, group)

    def _next_group(self) -> tuple[list[_Write], bool]:
        """Waits for a write and returns it with all queued ones, and whether the committer is closed after them."""
        first = self._queue.get()
        if first is None:
            return [], True
        group = [first]
        while len(group) < _LARGEST_GROUP:
            try:
                work = self._queue.get_nowait()
            except Empty:
                break
            if work is None:
                return group, True
            group.append(work)
        return group, False

    def _commit(self, connection: Connection, group: list[_Write]) -> None:
        finished: list[tuple[Future[Any], Any]] = []
        try:
            with connection.begin():
                self._on_begin(connection)
                for work in group:
                    savepoint = Savepoint(connection)
                    try:
                        result = work.run(connection)
                        savepoint.keep()
                    except Exception as exc:  # boundary: the caller gets the error, the others continue
                        if not savepoint.undo():
                            raise StoreError(f"the database aborted, nothing is stored: {exc}") from exc
                        work.future.set_exception(_for_caller(exc))
                    else:
                        finished.append((work.future, result))
                self._on_commit(connection)
        except Exception as exc:  # noqa: BLE001  boundary: nothing was committed, every caller gets the error
            for work in group:
                if not work.future.done():
                    work.future.set_exception(_for_caller(exc))
            return
        for future, result in finished:
            future.set_result(result)


def _for_caller(exc: Exception) -> Exception:
    """Returns database errors as StoreError and other errors unchanged."""
    if not isinstance(exc, SQLAlchemyError):
        return exc
    reason = exc.orig if isinstance(exc, StatementError) else exc
    error = StoreError(f"the database rejected the write, nothing of it is stored: {reason}")
    error.__cause__ = exc
    return error
