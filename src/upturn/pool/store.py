"""The pool: one file of evidence, one process that writes it, any number that read.

A write returns when it is durable. Records never change: writing an id again with the same content is a no-op,
with other content an error; only releases and runs change state, and their earlier states are kept.
"""

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from types import TracebackType
from typing import Self

from sqlalchemy import Engine

from upturn.errors import StoreBusyError, StoreError
from upturn.pool.batch import BatchWriter, PoolBatch, RolloutKey, prepare
from upturn.pool.commit import GroupCommitter
from upturn.pool.database import bring_to_head, check_head, reading_engine, writing_engine
from upturn.pool.reader import PoolReader
from upturn.records import AgentVersion, Decision, Evaluation, Feedback, Release, Run, Snapshot, Task, Trajectory


class _Writing:
    """Lock, engine and committer of a pool that is open for writing."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._lock = WriterLock(path)
        self._engine = writing_engine(path)
        try:
            bring_to_head(self._engine, path)
            self.writer = BatchWriter(clock)
            with self._engine.connect() as connection:
                self.writer.start_after(connection)
        except BaseException:
            self._release()
            raise
        self.committer = GroupCommitter(self._engine)

    def close(self) -> None:
        self.committer.close()
        self._release()

    def _release(self) -> None:
        self._engine.dispose()
        self._lock.release()


class Pool(PoolReader):
    """The store of tasks, decisions, trajectories, evaluations, feedback, agents, releases, runs and snapshots.

    Safe to share between threads: writers that wait at the same time share one transaction. Use it in a ``with``
    block, or close it.
    """

    def __init__(self, path: Path, engine: Engine, writing: _Writing | None) -> None:
        """For ``open``."""
        super().__init__(path, engine)
        self._writing = writing

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False, clock: Callable[[], float] = time) -> Self:
        """The pool at ``path``, created if it is not there (``read_only`` never creates or upgrades).

        ``clock`` gives UTC seconds for ``recorded_at``. Raises StoreBusyError when another process writes it, and
        StoreError for a missing or foreign file or one of another version.
        """
        where = Path(path)
        if where.is_dir():
            raise StoreError(
                f"the pool {str(where)!r} is a folder; name a file in it, such as {where / 'upturn.db'}"
            )
        if read_only and not where.exists():
            raise StoreError(
                f"there is no pool at {str(where)!r}; create one with `upturn ingest` or `upturn demo`"
            )
        writing = None if read_only else _Writing(where, clock)
        engine = reading_engine(where)
        try:
            check_head(engine, where)
        except BaseException:
            engine.dispose()
            if writing is not None:
                writing.close()
            raise
        return cls(where, engine, writing)

    def close(self) -> None:
        """Finish waiting writes and release the file. Closing twice is allowed."""
        writing, self._writing = self._writing, None
        self._engine.dispose()
        if writing is not None:
            writing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.close()

    def append(self, batch: PoolBatch) -> int:
        """Stores all of the batch or nothing; returns how many of its records are new, once they are durable.

        Raises StoreConflictError for an id that is stored with other content and for a trajectory whose task or an
        evaluation whose trajectory is unknown; StoreError for a pool that is closed or read-only, and where the
        database refuses; RecordError for records that cannot be read back.
        """
        writing = self._writing
        if writing is None:
            raise StoreError(f"the pool {str(self.path)!r} is closed or read-only; open it for writing")
        prepared = prepare(batch)
        return writing.committer.run(lambda connection: writing.writer.apply(connection, prepared))

    def add_tasks(self, *tasks: Task) -> int:
        """Stores tasks; returns how many are new. Errors as ``append``."""
        return self.append(PoolBatch(tasks=tasks))

    def add_decisions(self, *decisions: Decision) -> int:
        """Stores decisions; returns how many are new. Errors as ``append``."""
        return self.append(PoolBatch(decisions=decisions))

    def add_trajectories(self, trajectories: Sequence[Trajectory], evaluations: Sequence[Evaluation] = ()) -> int:
        """Stores trajectories, and evaluations of them or of earlier ones; returns how many are new."""
        return self.append(PoolBatch(trajectories=trajectories, evaluations=evaluations))

    def add_evaluations(self, *evaluations: Evaluation) -> int:
        """Stores evaluations of stored trajectories; returns how many are new. Errors as ``append``."""
        return self.append(PoolBatch(evaluations=evaluations))

    def add_feedback(self, *feedback: Feedback) -> int:
        """Stores feedback; returns how many are new. Errors as ``append``."""
        return self.append(PoolBatch(feedback=feedback))

    def put_agent_version(self, version: AgentVersion) -> int:
        """Stores a frozen agent version; returns 1 if it is new. Errors as ``append``."""
        return self.append(PoolBatch(agent_versions=[version]))

    def put_release(self, release: Release) -> int:
        """Stores a release's present state; returns 1 if it changed. Earlier states stay in the history."""
        return self.append(PoolBatch(releases=[release]))

    def put_run(self, run: Run) -> int:
        """Stores a run's present state; returns 1 if it changed. Earlier states stay in the history."""
        return self.append(PoolBatch(runs=[run]))

    def add_snapshot(self, snapshot: Snapshot) -> int:
        """Stores a snapshot; returns 1 if it is new. Errors as ``append``."""
        return self.append(PoolBatch(snapshots=[snapshot]))


class PoolSink:
    """A ``records.TrajectorySink`` that appends to a pool; a (run, iteration) is stored once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        """Durable when it returns, all or nothing; a key that is stored already is not changed."""
        tasks = {task.id: task for task, _, _ in finished}
        self._pool.append(
            PoolBatch(
                tasks=list(tasks.values()),
                trajectories=[trajectory for _, trajectory, _ in finished],
                evaluations=[evaluation for _, _, evaluation in finished],
                rollout=RolloutKey(run, iteration),
            )
        )


class WriterLock:
    """Held from construction until ``release``, or until the process ends however it ends."""

    def __init__(self, pool_path: Path) -> None:
        """Raises StoreBusyError naming the path and process that holds it, StoreError when no lock can be made."""
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
                "wait until it ends, stop it, or open the pool read-only"
            ) from exc
        with suppress(OSError):  # the id is for people; a full disk is reported by the writes
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next writer in; called once."""
        os.close(self._descriptor)
