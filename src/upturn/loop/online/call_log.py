"""Durable storage of calls from an event loop.

While calls are few, each goes to the pool's journal, whose acknowledgement is the fastest. While they are many,
those that end at about the same time share one transaction of the tables: the work per call is less.
"""

import asyncio
import concurrent.futures
import logging
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, TypeAlias

from upturn.errors import UpturnError
from upturn.loop.online.arrival import Decided
from upturn.pool import Pool, PoolRecord, ReadyRow, imported_tag
from upturn.pool.access import Border
from upturn.records import episode_task_id

_LARGEST_BATCH = 256
"""Calls in one transaction; it limits how long the first one waits."""
_MANY_CALLS, _MANY_SECONDS = 32, 0.08
"""So many calls within this time are many: 400 a second. Above it, the journal cost a fifth of the throughput; at
200 a second, it saves each call some 0.4 ms (docs/decisions.md)."""
_MOST_KNOWN = 10_000
"""Tags in memory; a forgotten one is stored again, which changes nothing."""
_Records: TypeAlias = Sequence[PoolRecord | ReadyRow]
_log = logging.getLogger("upturn.gateway")


class CallLog:
    """Stores records in a pool. For one event loop."""

    def __init__(self, pool: Pool, timer: Callable[[], float] = monotonic) -> None:
        self._pool = pool
        self._timer = timer
        self._times: deque[float] = deque([float("-inf")] * _MANY_CALLS, maxlen=_MANY_CALLS)
        """When the last calls came."""
        self._waiting: list[tuple[_Records, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._unfinished: set[asyncio.Future[None]] = set()

    async def store(self, records: _Records) -> None:
        """Returns when the records of a call are durable; reads see them soon after, or once ``settle`` returns.

        They are stored also if the caller is cancelled meanwhile. Raises StoreError if they cannot be stored; then
        none of them is.
        """
        await asyncio.shield(self._begin(records))

    async def store_now(self, records: _Records) -> None:
        """Returns when the records are durable and reads see them; otherwise as ``store``, for any records."""
        await asyncio.shield(self._watched(self._queued(records)))

    def store_soon(self, records: _Records) -> None:
        """Stores the records of a call in the background; ``drain`` waits for them."""
        self._begin(records).add_done_callback(_report)

    async def settle(self) -> None:
        """Returns when reads see everything that was given to this log before, unless it has failed."""
        if self._unfinished:
            await asyncio.wait(set(self._unfinished))
        await asyncio.wrap_future(self._pool.settled())

    async def drain(self) -> None:
        """Returns when everything is stored, or has failed, also what comes in the meantime."""
        while self._unfinished:
            await self.settle()
        await self.settle()

    def _begin(self, records: _Records) -> "asyncio.Future[None]":
        now = self._timer()
        self._times.append(now)
        if now - self._times[0] < _MANY_SECONDS:
            return self._watched(self._queued(records))
        return self._watched(_of_this_loop(self._pool.submit_soon(*records)))

    def _watched(self, done: "asyncio.Future[None]") -> "asyncio.Future[None]":
        self._unfinished.add(done)
        done.add_done_callback(self._unfinished.discard)
        return done

    def _queued(self, records: _Records) -> "asyncio.Future[None]":
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((records, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write())
        return done

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_LARGEST_BATCH], self._waiting[_LARGEST_BATCH:]
            try:
                await self._append([record for records, _ in batch for record in records])
            except UpturnError:
                await self._write_one_by_one(batch)
                continue
            for _, done in batch:
                _finish(done, None)

    async def _write_one_by_one(self, batch: Sequence[tuple[_Records, "asyncio.Future[None]"]]) -> None:
        """Stores what can be stored: one bad call must not lose the others."""
        for records, done in batch:
            try:
                await self._append(records)
            except UpturnError as exc:
                _finish(done, exc)
            else:
                _finish(done, None)

    async def _append(self, records: _Records) -> None:
        await asyncio.wrap_future(self._pool.submit(*records))


class CallTags:
    """Stores the tags of calls, which become those of the task that their episode is sealed as; each tag once.

    For one event loop.
    """

    def __init__(self, log: CallLog, border: Border) -> None:
        self._log, self._border = log, border
        self._known: dict[tuple[str, str], None] = {}
        """Task and tag, the earliest first."""

    async def store(self, decided: Decided) -> None:
        """Returns when the call's tags are durable; raises StoreError."""
        if not decided.arrival.tags:
            return
        tenant = decided.arrival.client.tenant
        task_id = episode_task_id(tenant, decided.placement.episode)
        new = [tag for tag in dict.fromkeys(decided.arrival.tags) if (task_id, tag) not in self._known]
        if not new:
            return
        records = [imported_tag(task_id, tag, tenant=tenant) for tag in new]
        await self._log.store_now([self._border.stored(record, tenant=tenant) for record in records])
        self._known |= dict.fromkeys((task_id, tag) for tag in new)
        while len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]


def _of_this_loop(stored: "concurrent.futures.Future[Any]") -> "asyncio.Future[None]":
    """As ``asyncio.wrap_future``, in a third of the time: a call is neither cancelled nor is its result of use."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    stored.add_done_callback(lambda _: loop.call_soon_threadsafe(_finish, done, stored.exception()))
    return done


def _finish(done: "asyncio.Future[None]", error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _report(stored: "asyncio.Future[None]") -> None:
    if not stored.cancelled() and (error := stored.exception()) is not None:
        _log.error("a call that its client left is not stored: %s", error)
