"""Protection of an upstream that fails or is overloaded: circuit breaker, retry budget, limit of calls."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import ceil
from time import monotonic

from upturn.models.upstreams.upstream import BreakerState, UpstreamError, Verdict

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
        self._probe: Permit | None = None
        self._openings = 0

    @property
    def state(self) -> BreakerState:
        """``half_open``: the waiting time is over, and a call tries, or may."""
        if self._opened is None:
            return "closed"
        return "open" if self._clock() < self._opened + self._seconds else "half_open"

    def admit(self) -> "Permit":
        """The permit of one call, which reports what came of it. Raises UpstreamError while calls are refused."""
        permit = Permit(self, self._openings)
        if self._opened is None:
            return permit
        wait = self._opened + self._seconds - self._clock()
        if wait > 0 or self._probe is not None:
            until = f"for {wait:.0f} s more" if wait > 0 else "until the call that tries it now is answered"
            raise UpstreamError(
                f"{self._name} failed {self._failures} times in a row; calls are refused {until}",
                kind="overload",
                retry_after_seconds=max(1, ceil(wait)),
            )
        self._probe = permit
        return permit

    def report(self, permit: "Permit", verdict: Verdict) -> None:
        """Counts a verdict; one of a call that began before the breaker opened last does not count."""
        if permit.openings != self._openings or (self._opened is not None and permit is not self._probe):
            return
        if self._opened is not None:
            self._probe = None
        match verdict:
            case "failed":
                self._failures += 1
                if self._failures >= self._limit:
                    self._opened = self._clock()
                    self._openings += 1
            case "answered":
                self._failures, self._opened = 0, None
            case "begun" if self._opened is not None:
                # closes, but the next failure opens it again
                self._failures, self._opened = self._limit - 1, None
            case "begun" | "none":
                pass


class Permit:
    """The leave to call once."""

    def __init__(self, breaker: Breaker, openings: int) -> None:
        self._breaker = breaker
        self.openings = openings
        """How often the breaker had opened."""

    def report(self, verdict: Verdict) -> None:
        """What came of the call. ``begun``: its first part came. ``none``: e.g. its client left."""
        self._breaker.report(self, verdict)


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

    def __init__(self, name: str, running: int, waiting: int, seconds: float) -> None:
        """``seconds``: longest wait for a place."""
        self._name = name
        self._semaphore = asyncio.Semaphore(running)
        self._running = running
        self._most_waiting = waiting
        self._seconds = seconds
        self.waiting = 0
        """Calls that wait."""

    @property
    def is_full(self) -> bool:
        """Whether a call would have to wait for its place."""
        return self._semaphore.locked()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Waits for a place and holds it in the block.

        Raises UpstreamError if too many calls wait already, or if this one waits too long.
        """
        if self._semaphore.locked():
            if self.waiting >= self._most_waiting:
                raise UpstreamError(
                    f"{self._name} has {self._running} calls at work and {self.waiting} waiting; further ones are "
                    "refused",
                    kind="overload",
                )
            self.waiting += 1
            try:
                async with asyncio.timeout(self._seconds):
                    await self._semaphore.acquire()
            except TimeoutError as exc:
                raise UpstreamError(
                    f"{self._name} had {self._running} calls at work for {self._seconds:g} s; this one has waited "
                    "in vain",
                    kind="overload",
                ) from exc
            finally:
                self.waiting -= 1
        else:
            await self._semaphore.acquire()
        try:
            yield
        finally:
            self._semaphore.release()
