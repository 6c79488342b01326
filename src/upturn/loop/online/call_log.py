"""Durable storage of calls from an event loop: calls that end at about the same time share one transaction."""

import asyncio
from collections.abc import Sequence

from upturn.errors import StoreError
from upturn.pool import Pool, PoolRecord

_LARGEST_BATCH = 256
"""Calls in one transaction; it limits how long the first one waits."""


class CallLog:
    """Stores records in a pool. For one event loop."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._waiting: list[tuple[Sequence[PoolRecord], asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()

    async def store(self, records: Sequence[PoolRecord]) -> None:
        """Returns when the records are durable; they are stored also if the caller is cancelled meanwhile.

        Raises StoreError if they cannot be stored; then none of them is.
        """
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((records, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write())
        await asyncio.shield(done)

    def store_soon(self, records: Sequence[PoolRecord]) -> None:
        """Stores the records in the background; ``drain`` waits for them."""
        task = asyncio.get_running_loop().create_task(self.store(records))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def drain(self) -> None:
        """Returns when everything that was given to ``store`` is durable or has failed."""
        while self._background:
            await asyncio.wait(self._background)
        while self._writer is not None and not self._writer.done():
            await asyncio.wait([self._writer])

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_LARGEST_BATCH], self._waiting[_LARGEST_BATCH:]
            try:
                await self._append([record for records, _ in batch for record in records])
            except StoreError:
                await self._write_one_by_one(batch)
                continue
            for _, done in batch:
                _finish(done, None)

    async def _write_one_by_one(self, batch: Sequence[tuple[Sequence[PoolRecord], "asyncio.Future[None]"]]) -> None:
        """Stores what can be stored: one bad call must not lose the others."""
        for records, done in batch:
            try:
                await self._append(records)
            except StoreError as exc:
                _finish(done, exc)
            else:
                _finish(done, None)

    async def _append(self, records: Sequence[PoolRecord]) -> None:
        await asyncio.wrap_future(self._pool.submit(*records))


def _finish(done: "asyncio.Future[None]", error: StoreError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
