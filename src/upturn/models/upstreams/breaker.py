"""Protection of an upstream that fails or is overloaded: circuit breaker, retry budget, limit of calls."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

from upturn.models.upstreams.upstream import BreakerState, UpstreamError

_WINDOW_SECONDS = 10.0
_FREE_RETRIES = 10
"""Retries that are always allowed within the window, so that a quiet gateway retries at all."""


class Breaker:
    """Refuses calls at once after ``failures`` failures in a row; after ``seconds``, one call at a time tries."""

    def __init__(self, name: str, failures: int, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._name = name
        self._limit = failures
        self._seconds = seconds
        self._clock = clock
        self._failures = 0
        self._opened: float | None = None
        self._is_probing = False

    @property
    def state(self) -> BreakerState:
        """``half_open``: the waiting time is over, and a call tries, or may."""
        if self._opened is None:
            return "closed"
        return "open" if self._clock() < self._opened + self._seconds else "half_open"

    def admit(self) -> None:
        """Raises UpstreamError while calls are refused."""
        if self._opened is None:
            return
        wait = self._opened + self._seconds - self._clock()
        if wait > 0 or self._is_probing:
            raise UpstreamError(
                f"{self._name} failed {self._failures} times in a row; calls are refused for "
                f"{max(wait, 0.0):.0f} s more",
                kind="overload",
                retry_after_seconds=max(1, round(wait)),
            )
        self._is_probing = True

    def succeed(self) -> None:
        """A call was answered: the breaker closes."""
        self._failures, self._opened, self._is_probing = 0, None, False

    def fail(self) -> None:
        """A call failed."""
        self._failures += 1
        self._is_probing = False
        if self._failures >= self._limit or self._opened is not None:
            self._opened = self._clock()

    def release(self) -> None:
        """A call ended without a verdict, e.g. because its client left."""
        self._is_probing = False


class RetryBudget:
    """Allows retries up to a share of the calls of the last seconds (as Finagle's and Envoy's retry budgets)."""

    def __init__(self, share: float, clock: Callable[[], float] = monotonic) -> None:
        self._share = share
        self._clock = clock
        self._calls: deque[float] = deque()
        self._retries: deque[float] = deque()

    def count_call(self) -> None:
        """A call, the first try."""
        self._calls.append(self._clock())
        self._drop(self._calls)

    def take(self) -> bool:
        """Whether a retry is allowed; it is counted then."""
        self._drop(self._calls)
        self._drop(self._retries)
        if len(self._retries) >= _FREE_RETRIES + self._share * len(self._calls):
            return False
        self._retries.append(self._clock())
        return True

    def _drop(self, times: deque[float]) -> None:
        start = self._clock() - _WINDOW_SECONDS
        while times and times[0] < start:
            times.popleft()


class CallLimit:
    """At most ``running`` calls at the same time, in the order of their arrival; at most ``waiting`` wait."""

    def __init__(self, name: str, running: int, waiting: int) -> None:
        self._name = name
        self._semaphore = asyncio.Semaphore(running)
        self._running = running
        self._most_waiting = waiting
        self.waiting = 0
        """Calls that wait."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Waits for a place and holds it in the block; raises UpstreamError if too many calls wait already."""
        if self._semaphore.locked():
            if self.waiting >= self._most_waiting:
                raise UpstreamError(
                    f"{self._name} has {self._running} calls at work and {self.waiting} waiting; further ones are "
                    "refused",
                    kind="overload",
                )
            self.waiting += 1
            try:
                await self._semaphore.acquire()
            finally:
                self.waiting -= 1
        else:
            await self._semaphore.acquire()
        try:
            yield
        finally:
            self._semaphore.release()
