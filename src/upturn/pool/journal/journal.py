"""The journal of an open pool: one thread that makes records durable, and hands them to the tables.

Records are acknowledged once their entry is on the disk, and nobody waits for the transaction with all its indexes:
it follows within 0.1 s, for all records since the last one. If the tables cannot take records, these stay in the
journal, and nothing further is acknowledged until they can.

Not covered: who reads the pool in the meantime does not see the last records; ``Journal.settle`` waits for them.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import NamedTuple

from sqlalchemy import Table

from upturn.errors import StoreConflictError, StoreError
from upturn.pool.journal.entries import Rows, entry_of, named_errors, open_entries
from upturn.pool.row import Values

_LAG_SECONDS = 0.1
"""Longest time between the acknowledgement of a record and the transaction that stores it. Shorter ones are more
work: a transaction takes the writer's thread 0.6 ms and each call in it 0.1 ms (docs/decisions.md)."""
_FORGOTTEN = 64
"""Entries that are deleted at a time, once they are in the tables."""
_MOST_ENTRIES = 256
"""Entries from which on acknowledgements wait for the tables."""
_IDLE_SECONDS = 1.0
"""Time without new records after which the file is emptied."""
_LARGEST_GROUP = 256
_log = logging.getLogger("upturn.pool")


class _Waiting(NamedTuple):
    """Rows to make durable; none = a caller that waits until all before it are in the tables."""

    rows: Rows
    done: Future[None]


class _Handed(NamedTuple):
    """Rows on their way to the tables."""

    first: int
    """Number of their first entry."""
    rows: Rows
    stored: Future[int]


class Journal:
    """Makes records durable. Safe to share between threads."""

    def __init__(self, path: Path, store: Callable[[Rows], Future[int]]) -> None:
        """``store``: puts rows into the tables; its future is done when they are durable there.

        What an earlier process left must be in the tables already. Raises StoreError if the file cannot be used.
        """
        with named_errors(path):
            self._entries = open_entries(path)
            self._entries.execute("DELETE FROM entries")
        self._path = path
        self._store = store
        self._last = 0
        """Number of the last entry."""
        self._first = 1
        """Number of the first entry in the file."""
        self._held: list[Rows] = []
        """On the disk, for the next transaction."""
        self._since = 0.0
        """When the first of them was acknowledged."""
        self._handed: list[_Handed] = []
        """On the disk, and perhaps not in the tables yet."""
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._gate = Lock()
        self._is_open = True
        self._thread = Thread(target=self._serve, name="upturn-pool-journal", daemon=True)
        self._thread.start()

    def append(self, rows: Rows) -> Future[None]:
        """Returns a future that is done once the rows are durable; its error is a StoreError."""
        done: Future[None] = Future()
        with self._gate:
            if not self._is_open:
                raise StoreError("the pool is closed; open it again to write")
            self._queue.put(_Waiting(rows, done))
        return done

    def settle(self) -> Future[None]:
        """Returns a future that is done once all rows of earlier calls are in the tables, for readers to see."""
        return self.append({})

    def close(self) -> None:
        """Puts everything into the tables and empties the file. Closing twice is allowed."""
        with self._gate:
            if not self._is_open:
                return
            self._is_open = False
            self._queue.put(None)
        self._thread.join()
        self._empty()  # entries that the tables cannot take stay, and are read when the pool is opened again
        self._entries.close()

    def _serve(self) -> None:
        is_last = False
        while not is_last:
            group, is_last = self._next_group()
            if group:
                self._write(group)
            elif not self._held and not is_last:
                self._empty()
            if self._held and (is_last or monotonic() - self._since > _LAG_SECONDS):
                self._hand_over()
            self._forget()

    def _next_group(self) -> tuple[list[_Waiting], bool]:
        """Returns all queued rows, and whether the journal is closed after them; waits while nothing is to do."""
        group: list[_Waiting] = []
        left = _IDLE_SECONDS if self._first <= self._last else None
        if self._held:
            left = max(0.0, self._since + _LAG_SECONDS - monotonic())
        try:
            while len(group) < _LARGEST_GROUP:
                waiting = self._queue.get_nowait() if group else self._queue.get(timeout=left)
                if waiting is None:
                    return group, True
                group.append(waiting)
        except Empty:
            pass
        return group, False

    def _write(self, group: Sequence[_Waiting]) -> None:
        parts = [member.rows for member in group if member.rows]
        try:
            self._make_room(is_settled=len(parts) < len(group))
            if parts:
                self._put(rows := _joined(parts))
        except StoreError as exc:
            for member in group:
                member.done.set_exception(exc)
            return
        for member in group:
            member.done.set_result(None)
        if parts:
            self._since = self._since if self._held else monotonic()
            self._held.append(rows)

    def _put(self, rows: Rows) -> None:
        with named_errors(self._path):  # each statement is a transaction
            self._entries.execute("INSERT INTO entries VALUES (?, ?)", (self._last + 1, entry_of(rows)))
        self._last += 1

    def _forget(self) -> None:
        """Deletes entries that are in the tables, if they are many; after the acknowledgement, not before."""
        needed = self._handed[0].first if self._handed else self._last + 1 - len(self._held)
        if needed - self._first < _FORGOTTEN:
            return
        with suppress(StoreError), named_errors(self._path):  # the next record reports it
            self._entries.execute("DELETE FROM entries WHERE number < ?", (needed,))
            self._first = needed

    def _empty(self) -> None:
        """Deletes all entries, if all of them are in the tables: what was said in calls is not kept twice."""
        with suppress(StoreError):  # the next record reports it
            self._settle()
            with named_errors(self._path):
                self._entries.execute("DELETE FROM entries")
            self._first = self._last + 1

    def _make_room(self, *, is_settled: bool) -> None:
        """Waits for the tables if there are many entries, or on demand.

        Raises StoreError if the tables cannot take what is on the disk.
        """
        has_failed = any(handed.stored.done() and handed.stored.exception() for handed in self._handed)
        if is_settled or has_failed or self._last - self._first > _MOST_ENTRIES:
            self._settle()
        while self._handed and self._handed[0].stored.done():
            del self._handed[0]

    def _hand_over(self) -> None:
        first = self._last + 1 - len(self._held)
        rows, self._held = _joined(self._held), []
        self._handed.append(_Handed(first, rows, self._store(rows)))

    def _settle(self) -> None:
        """Waits until all is in the tables; tries once more what could not be stored. Raises StoreError."""
        if self._held:
            self._hand_over()
        while self._handed:
            handed = self._handed[0]
            if isinstance(error := handed.stored.exception(), StoreConflictError):
                self._store_one_by_one(handed.rows)
            elif error is not None:
                self._store(handed.rows).result()
            del self._handed[0]

    def _store_one_by_one(self, rows: Rows) -> None:
        """Stores what can be stored: one record whose id is taken must not lose the others."""
        for table, group in rows.items():
            for row in group:
                try:
                    self._store({table: [row]}).result()
                except StoreConflictError:
                    _log.exception("an acknowledged record is not stored")


def _joined(parts: Sequence[Rows]) -> Rows:
    """Returns the rows of all parts by table, in the order of the first part that has the table."""
    if len(parts) == 1:
        return parts[0]
    joined: dict[Table, list[Values]] = {}
    for part in parts:
        for table, rows in part.items():
            joined.setdefault(table, []).extend(rows)
    return joined
