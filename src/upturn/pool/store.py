"""The pool: a database with any number of readers.

A file has one process that writes all the time. Other processes may change releases and other states at any time
(``open(beside=True)``); on PostgreSQL any number of processes may write everything. Their transactions are short,
and numbers of records continue after those of all processes. A write returns when it is durable. Stored records
never change: writing an id again is a no-op for equal content and an error for other content. Only
releases, runs and limits of agents change state; earlier states stay in the history.
"""

import fcntl
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from sqlalchemy import Connection, Engine

from upturn.errors import StoreBusyError, StoreError
from upturn.pool.batch import BatchWriter, PreparedBatch, RolloutKey, prepare
from upturn.pool.commit import GroupCommitter, JoinableWork
from upturn.pool.database import (
    Backend,
    Location,
    backend_in,
    backend_of,
    bring_to_head,
    check_head,
    is_at_head,
    location_of,
)
from upturn.pool.imported import Imported
from upturn.pool.journal import JOURNAL_ENDINGS, Journal, journal_of, read_journal
from upturn.pool.reader import PoolReader, States, StateT
from upturn.pool.row import PoolRecord, ReadyRow
from upturn.records import Evaluation, Task, Trajectory

ResultT = TypeVar("ResultT")


class Fence(Protocol):
    """What may forbid a write."""

    def check(self, connection: Connection) -> None:
        """Raises StoreError, in the transaction of the write, unless it is allowed."""
        ...


class _WriteAccess:
    """Lock, engine and committer of a pool that is open for writing."""

    def __init__(self, backend: Backend, clock: Callable[[], float], *, beside: bool, has_journal: bool) -> None:
        path = backend.location if isinstance(backend.location, Path) else None  # None = many processes may write
        is_alone = path is not None and not (beside and _is_at_head(backend))
        self._lock = WriterLock(path) if path is not None and is_alone else None
        self._engine = backend.writing_engine()
        try:
            if is_alone or not (beside or _is_at_head(backend)):
                bring_to_head(backend)
            self.writer = BatchWriter(clock)
            self.committer = GroupCommitter(
                self._engine, self.writer.start_transaction, self.writer.end_transaction
            )
        except BaseException:
            self._release()
            raise
        if beside and self._lock is not None:  # it was needed for the upgrade
            self._lock.release()
            self._lock = None
        self.fence: Fence | None = None
        """None = every write is allowed."""
        self.journal: Journal | None = None
        """None = records are durable when they are in the tables."""
        if path is not None and self._lock is not None:
            self._read_journal(path)
            if has_journal:
                self.journal = Journal(
                    journal_of(path), lambda rows: self.submit(PreparedBatch(rows, {}, None, (), None))
                )

    def under(self, fence: "Fence") -> Self:
        """Returns the same access for writes that check ``fence`` first."""
        fenced = copy(self)
        fenced.fence = fence
        return fenced

    @property
    def has_one_writer(self) -> bool:
        """Whether no other process can write all the time."""
        return self._lock is not None

    def submit(self, batch: PreparedBatch) -> Future[int]:
        """Returns a future with the number of new records, done once they are durable."""
        if self.fence is None and batch.may_be_joined:
            return self.committer.submit(JoinableWork(batch, self.writer.write, self.writer.write_joined))
        return self.submit_work(lambda connection: self.writer.write(connection, batch))

    def submit_work(self, work: Callable[[Connection], ResultT]) -> Future[ResultT]:
        """Returns a future with the result of ``work``, done once it is durable."""
        if (fence := self.fence) is None:
            return self.committer.submit(work)

        def checked(connection: Connection) -> ResultT:
            fence.check(connection)
            return work(connection)

        return self.committer.submit(checked)

    def _read_journal(self, path: Path) -> None:
        """Stores what a process that was killed had acknowledged."""
        try:
            for records in read_journal(journal_of(path)):
                self.submit(prepare(records, None, None)).result()
        except BaseException:
            self.close()
            raise
        for ending in JOURNAL_ENDINGS:
            path.with_name(path.name + ending).unlink(missing_ok=True)

    def close(self) -> None:
        if self.journal is not None:
            self.journal.close()
        self.committer.close()
        if self._lock is not None:
            backend_in(self._engine).checkpoint(self._engine)
        self._release()

    def _release(self) -> None:
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()


class Pool(PoolReader):
    """The store of tasks, decisions, trajectories, evaluations, feedback, agents, releases, runs and snapshots.

    Safe to share between threads: writers that wait at the same time share one transaction. Use it in a ``with``
    block, or close it.
    """

    def __init__(self, location: Location, engine: Engine, write_access: _WriteAccess | None) -> None:
        """Use ``open`` instead."""
        super().__init__(location, engine)
        self._write_access = write_access

    @classmethod
    def open(
        cls,
        location: str | Location,
        *,
        read_only: bool = False,
        beside: bool = False,
        has_journal: bool = False,
        clock: Callable[[], float] = time,
    ) -> Self:
        """Opens the pool at a path or a URL (``postgresql://…``); creates its tables if it does not exist, and
        upgrades them, unless ``read_only``.

        ``beside``: to change a few records although another process may have the file open for writing.
        ``has_journal``: records of ``submit_soon`` are durable before they are in the tables. Neither matters on
        PostgreSQL, where any number of processes write. ``clock`` returns UTC seconds for
        ``recorded_at``. Raises StoreBusyError if another process has the file open for writing, and
        StoreError for a missing pool, a place that is no pool, or one of another version.
        """
        location = location_of(location)
        if isinstance(location, Path) and location.is_dir():
            raise StoreError(
                f"the pool {str(location)!r} is a folder; name a file in it, such as {location / 'upturn.db'}"
            )
        backend = backend_of(location)
        if (read_only or beside) and not backend.exists():
            raise StoreError(
                f"no pool at {str(location)!r}; `upturn up`, `upturn ingest` and `upturn demo` create one"
            )
        write_access = None if read_only else _WriteAccess(backend, clock, beside=beside, has_journal=has_journal)
        engine = backend.reading_engine()
        try:
            check_head(engine)
        except BaseException:
            engine.dispose()
            if write_access is not None:
                write_access.close()
            raise
        return cls(location, engine, write_access)

    def close(self) -> None:
        """Finishes waiting writes and closes the database. Closing twice is allowed."""
        write_access, self._write_access = self._write_access, None
        self.engine.dispose()
        if write_access is not None:
            write_access.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.close()

    def append(
        self, *records: PoolRecord, rollout: RolloutKey | None = None, imported: Imported | None = None
    ) -> int:
        """Stores all records or none, in one transaction; returns how many are new once they are durable.

        A release or a run is stored with its current state. ``rollout`` is the key of the trajectories and
        evaluations (in the same order); if it is stored already, nothing is written. ``imported`` is a file whose
        import is complete with these records. Raises StoreConflictError if an id is stored with other content, or a
        trajectory's task or an evaluation's trajectory is not stored; RecordError for records that cannot be read
        back; StoreError if the pool is closed or read-only, or the database fails.
        """
        return self.submit(*records, rollout=rollout, imported=imported).result()

    def submit(
        self,
        *records: PoolRecord | ReadyRow,
        rollout: RolloutKey | None = None,
        imported: Imported | None = None,
    ) -> Future[int]:
        """Returns a future with the result of ``append``, done once the records are durable; does not wait.

        Errors of the records themselves are raised here, those of the database are the future's.
        """
        return self._access().submit(prepare(records, rollout, imported))

    def submit_soon(self, *records: PoolRecord | ReadyRow) -> Future[Any]:
        """Returns a future that is done once the records are durable; reads see them at most some 0.1 s later.

        With a journal, this takes a third of the time of ``submit``; without one it is the same. For records whose
        ids are new, and no trajectories. Errors of the records themselves are raised here; the future's error is a
        StoreError.
        """
        access = self._access()
        batch = prepare(records, None, None)
        return access.submit(batch) if access.journal is None else access.journal.append(batch.rows)

    def settled(self) -> Future[Any]:
        """Returns a future that is done once reads see all that was submitted before."""
        access = self._access()
        return access.committer.submit(lambda _: None) if access.journal is None else access.journal.settle()

    def write(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Returns the result of ``work``, a change of rows that are no records, once it is durable."""
        return self._access().submit_work(work).result()

    def change(self, cls: type[StateT], work: Callable[[States[StateT]], StateT]) -> StateT:
        """Returns the state that ``work`` returned, once it is durable; nothing is stored if ``work`` raises.

        ``work`` reads the current states in the transaction that stores its result, so no other change comes
        between. It runs in the writing thread and must not use the pool.
        """
        access = self._access()

        def replace(connection: Connection) -> StateT:
            state = work(States(connection, cls))
            access.writer.write(connection, prepare([state], None, None))
            return state

        return access.submit_work(replace).result()

    def under(self, fence: "Fence") -> "Pool":
        """Returns this pool for writes that ``fence`` allows; close only the pool itself."""
        access = None if self._write_access is None else self._write_access.under(fence)
        return Pool(self.location, self.engine, access)

    @property
    def has_one_writer(self) -> bool:
        """Whether this process is the only one that writes it all the time; False where several may, or none."""
        return self._write_access is not None and self._write_access.has_one_writer

    def _access(self) -> _WriteAccess:
        if self._write_access is None:
            raise StoreError(f"the pool {str(self.location)!r} is closed or read-only; open it for writing")
        return self._write_access


class PoolSink:
    """A ``records.TrajectorySink`` that appends to a pool; each (run, iteration) is stored once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        """Stores all of ``finished`` or nothing; no-op if the (run, iteration) is stored already."""
        tasks = {task.id: task for task, _, _ in finished}
        results = [record for _, trajectory, evaluation in finished for record in (trajectory, evaluation)]
        self._pool.append(*tasks.values(), *results, rollout=RolloutKey(run, iteration))


def _is_at_head(backend: Backend) -> bool:
    engine = backend.reading_engine()
    try:
        return is_at_head(engine)
    finally:
        engine.dispose()


class WriterLock:
    """A lock file, held from construction until ``release`` or the end of the process."""

    def __init__(self, pool_path: Path) -> None:
        """Raises StoreBusyError with the process that holds the lock, StoreError if the file cannot be created."""
        self.path = pool_path.with_name(pool_path.name + ".lock")
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            raise StoreError(
                f"the pool {str(pool_path)!r} cannot be locked for writing: {exc.strerror}; "
                "choose a folder that exists and can be written, or open it read-only"
            ) from exc
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StoreBusyError(
                f"the pool {str(pool_path)!r} is being written by process {holder}; "
                "wait until it ends, stop it, name another pool, or open this one read-only"
            ) from exc
        with suppress(OSError):  # the process id is only informative; writes report a full disk
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Releases the lock; called once."""
        os.close(self._descriptor)
