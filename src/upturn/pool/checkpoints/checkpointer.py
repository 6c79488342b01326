"""Writes checkpoints while a pool is open for writing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Self

from sqlalchemy import Engine

from upturn.config import CheckpointConfig
from upturn.errors import StoreError
from upturn.pool.audit import read_head
from upturn.pool.checkpoints.checkpoint import write_checkpoint
from upturn.pool.database import Location, reading_engine
from upturn.pool.store import Pool

_LOOK_SECONDS = 1.0
"""Time between two looks at the log's size, which is one row."""
_log = logging.getLogger("upturn.pool")


class Checkpointer:
    """Writes a checkpoint after a number of new entries or seconds, and at the end if there are new ones.

    Without a folder it does nothing.

    Enter it before the pool, so that the last checkpoint has what the pool stored when it was closed. Errors are
    logged: evidence goes on to be stored when its checkpoint cannot be written.
    """

    def __init__(self, location: str | Location, settings: CheckpointConfig) -> None:
        self._location, self._settings = location, settings
        self._written = 0
        """Size of the last checkpoint."""
        self._since = monotonic()
        self._is_over = Event()
        self._thread = Thread(target=self._serve, name="upturn-pool-checkpoints", daemon=True)

    def __enter__(self) -> Self:
        return self

    def start(self) -> None:
        """Begins to look at the log; once, when the pool is open."""
        if self._settings.folder:
            self._thread.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._write()

    def is_due(self, size: int, now: float) -> bool:
        """Returns whether a log of this size is due for a checkpoint; ``now`` is of a monotonic clock."""
        new = size - self._written
        return new >= self._settings.entries or (new > 0 and now - self._since >= self._settings.seconds)

    def _serve(self) -> None:
        engine: Engine = reading_engine(self._location)
        try:
            while not self._is_over.wait(_LOOK_SECONDS):
                try:
                    with engine.connect() as connection:
                        size = read_head(connection).size
                except StoreError:  # who writes the pool has the same error
                    continue
                if self.is_due(size, monotonic()):
                    self._write()
        finally:
            engine.dispose()

    def _write(self) -> None:
        try:
            self._written = write_checkpoint(self._location, Path(self._settings.folder)).size
        except StoreError:
            _log.exception("no checkpoint of the audit log was written; the next try follows")
        self._since = monotonic()


@contextmanager
def checkpointed_pool(
    location: str | Location, settings: CheckpointConfig, *, has_journal: bool = False
) -> Iterator[Pool]:
    """A pool that is open for writing, whose log gets checkpoints; raises as ``Pool.open``."""
    with Checkpointer(location, settings) as checkpointer, Pool.open(location, has_journal=has_journal) as pool:
        checkpointer.start()
        yield pool
