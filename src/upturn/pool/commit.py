"""Group commit: concurrent writers share one transaction and one flush to the disk.

Each write runs in its own savepoint: if it fails, it is undone and its caller gets the error, and the others are
committed. Neighbours that may be joined run in one savepoint with few statements, and each alone if that fails. If
the database aborts the whole transaction, e.g. for a full disk, all callers get the error. A call returns after the
commit. If the connection to a server is lost, the group runs again on the next one.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError, StatementError

from upturn.errors import StoreError
from upturn.pool.database import Savepoint, backend_in, driver_of, rejected

ResultT = TypeVar("ResultT")

_LARGEST_GROUP = 256
"""Maximum number of writes in one transaction; it limits how long the first one waits."""

_RECONNECT_SECONDS = 20.0
"""How long writes wait for a server that went away, such as one that restarts, before they are refused."""
_RECONNECT_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class JoinableWork:
    """A write that may run together with others of its kind, which saves a server's round trips."""

    part: Any
    run_one: Callable[[Connection, Any], Any]
    """Returns the result of one part."""
    run_all: Callable[[Connection, Sequence[Any]], Sequence[Any]]
    """Returns the results of several parts, the same as of each alone; raises where that is not possible."""

    def __call__(self, connection: Connection) -> Any:
        """Returns the result of this part."""
        return self.run_one(connection, self.part)


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
        self._connection: Connection | None = engine.connect()  # an error in the thread would be nobody's
        """None = it was lost."""
        self._engine = engine
        self._backend = backend_in(engine)
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
        while not is_last:
            group, is_last = self._next_group()
            if group:
                self._commit(group)
        if self._connection is not None:
            self._connection.close()

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

    def _commit(self, group: list[_Write]) -> None:
        """Commits the group; repeats it on another connection if this one is lost before the commit.

        The database is asked whether a commit whose connection was lost is there, so that nothing runs twice.
        """
        deadline, unsure = monotonic() + _RECONNECT_SECONDS, _Attempt()
        while True:
            attempt, driver = _Attempt(), None
            try:
                connection = self._connected()
                driver = driver_of(connection)
                with connection.begin():
                    if unsure.transaction and self._backend.is_committed(connection, unsure.transaction):
                        attempt = unsure
                        break
                    self._run(connection, [work for work in group if not work.future.done()], attempt)
                break
            except Exception as exc:  # noqa: BLE001  boundary: nothing is known to be committed
                if not self._backend.driver.is_lost(driver):
                    _fail(group, exc)
                    return
                self._disconnect()
                unsure = attempt if attempt.is_complete else unsure
                if monotonic() > deadline:
                    _fail(group, exc)
                    return
                sleep(_RECONNECT_PAUSE_SECONDS)
        for future, result in attempt.finished:
            future.set_result(result)

    def _connected(self) -> Connection:
        """Returns the connection, a new one if the last one was lost."""
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is lost
                connection.invalidate()
            connection.close()

    def _run(self, connection: Connection, group: Sequence[_Write], attempt: "_Attempt") -> None:
        """Runs each write of the group in a savepoint."""
        attempt.transaction = self._backend.transaction_id(connection)
        self._on_begin(connection)
        for work in self._without_joined(connection, group, attempt):
            savepoint = Savepoint(connection)
            try:
                result = work.run(connection)
                savepoint.keep()
            except Exception as exc:  # boundary: the caller gets the error, the others continue
                if not savepoint.undo():
                    raise StoreError(f"the database aborted, nothing is stored: {exc}") from exc
                work.future.set_exception(_for_caller(exc))
            else:
                attempt.finished.append((work.future, result))
        self._on_commit(connection)
        attempt.is_complete = True

    def _without_joined(
        self, connection: Connection, group: Sequence[_Write], attempt: "_Attempt"
    ) -> Iterator[_Write]:
        """Runs neighbours that may be joined, and yields the writes that must run alone, in their order."""
        for is_joinable, members in groupby(group, lambda work: isinstance(work.run, JoinableWork)):
            works = list(members)
            if not is_joinable or len(works) == 1 or not self._run_joined(connection, works, attempt):
                yield from works

    def _run_joined(self, connection: Connection, works: Sequence[_Write], attempt: "_Attempt") -> bool:
        """Returns whether the writes ran together; if not, nothing of them is done."""
        first: JoinableWork = works[0].run  # type: ignore[assignment]
        savepoint = Savepoint(connection)
        try:
            results = first.run_all(connection, [work.run.part for work in works])  # type: ignore[attr-defined]
            savepoint.keep()
        except Exception as exc:
            if not savepoint.undo():
                raise StoreError(f"the database aborted, nothing is stored: {exc}") from exc
            return False
        attempt.finished += [(work.future, result) for work, result in zip(works, results, strict=True)]
        return True


@dataclass(slots=True)
class _Attempt:
    """One transaction."""

    transaction: str = ""
    """Its name in the database; empty = it has none."""
    finished: list[tuple[Future[Any], Any]] = field(default_factory=list)
    """Futures of the writes in it, with their results."""
    is_complete: bool = False
    """Whether all that remains is the commit."""


def _fail(group: Sequence[_Write], exc: Exception) -> None:
    for work in group:
        if not work.future.done():
            work.future.set_exception(_for_caller(exc))


def _for_caller(exc: Exception) -> Exception:
    """Returns database errors as StoreError and other errors unchanged."""
    if not isinstance(exc, SQLAlchemyError):
        return exc
    reason = exc.orig if isinstance(exc, StatementError) else exc
    error = rejected(reason)
    error.__cause__ = exc
    return error
