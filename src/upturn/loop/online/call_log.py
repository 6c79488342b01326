"""Durable storage of calls from an event loop."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from upturn.errors import StoreError
from upturn.pool import Pool, PoolRecord

_log = logging.getLogger("upturn.gateway")


class CallLog:
    """Stores records in a pool. For one event loop."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._pending: set[asyncio.Future[Any]] = set()

    async def store(self, records: Sequence[PoolRecord]) -> None:
        """Returns when the records of a call are durable; reads see them soon after, or once ``settle`` returns.

        They are stored also if the caller is cancelled meanwhile. Raises StoreError if they cannot be stored; then
        none of them is.
        """
        await asyncio.shield(self._begin(self._pool.submit_soon(*records)))

    async def store_now(self, records: Sequence[PoolRecord]) -> None:
        """Returns when the records are durable and reads see them; otherwise as ``store``, for any records."""
        await asyncio.shield(self._begin(self._pool.submit(*records)))

    def store_soon(self, records: Sequence[PoolRecord]) -> None:
        """Stores the records of a call in the background; ``drain`` waits for them."""
        self._begin(self._pool.submit_soon(*records)).add_done_callback(_report)

    async def settle(self) -> None:
        """Returns when reads see everything that was given to this log before."""
        await asyncio.wrap_future(self._pool.settled())

    async def drain(self) -> None:
        """Returns when everything is stored, or has failed, and reads see it."""
        while self._pending:
            await asyncio.wait(self._pending)
        await self.settle()

    def _begin(self, stored: "Future[Any]") -> "asyncio.Future[Any]":
        future = asyncio.wrap_future(stored)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future


def _report(stored: "asyncio.Future[Any]") -> None:
    if not stored.cancelled() and isinstance(error := stored.exception(), StoreError):
        _log.error("a call that its client left is not stored: %s", error)
