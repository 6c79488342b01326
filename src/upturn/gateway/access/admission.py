"""How many calls are served at the same time, and who is next. No server; ``WaitingLine`` has no clock either.

At most ``max_in_flight`` calls are served and at most ``max_waiting`` wait. The next one is of the tenant with the
fewest calls in service, and among those of the tenant that was served least recently; within a tenant, the one that
waited longest. When the line is full, a tenant with fewer waiting calls than the largest displaces the latest call
of that one, so that one tenant's flood does not close the door for others. A refused call gets status 503 and
Retry-After.
"""

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from upturn.config import AccessConfig
from upturn.dialects import RequestError

ItemT = TypeVar("ItemT")
_LONGEST_RETRY_SECONDS = 60
_SMOOTHING = 0.1
"""Weight of a new call in the moving average of durations: about the last ten calls count."""


class Entered(NamedTuple, Generic[ItemT]):
    """What happened to a call that asked to be served."""

    is_served: bool
    displaced: ItemT | None = None
    """The waiting call that is refused now, which may be the new one; None = none."""


class WaitingLine(Generic[ItemT]):
    """The order of calls. ``ItemT`` identifies a call. Memory is bounded by the two sizes."""

    def __init__(self, max_in_flight: int, max_waiting: int) -> None:
        self._max_in_flight = max_in_flight
        self._max_waiting = max_waiting
        self._waiting: dict[str, deque[ItemT]] = {}
        """By tenant, in the order in which they were served last."""
        self._serving: Counter[str] = Counter()
        self.in_flight = 0
        self.waiting = 0

    def enter(self, tenant: str, item: ItemT) -> Entered[ItemT]:
        """Serves the call, or lets it wait, or refuses a call."""
        if self.in_flight < self._max_in_flight:
            self._start(tenant)
            return Entered(True)
        displaced: ItemT | None = None
        if self.waiting >= self._max_waiting:
            largest = max(self._waiting, key=lambda name: len(self._waiting[name]), default=tenant)
            if len(self._waiting.get(largest, ())) <= len(self._waiting.get(tenant, ())) + 1:
                return Entered(False, item)
            displaced = self._waiting[largest][-1]
            self.leave(largest, displaced)
        self._waiting.setdefault(tenant, deque()).append(item)
        self.waiting += 1
        return Entered(False, displaced)

    def leave(self, tenant: str, item: ItemT) -> None:
        """Removes a call, whose client left or waited too long, if it waits."""
        if item not in self._waiting.get(tenant, ()):
            return
        self._waiting[tenant].remove(item)
        self.waiting -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant]

    def finish(self, tenant: str) -> ItemT | None:
        """Ends a served call; returns the call that is served next, None = none waits."""
        self.in_flight -= 1
        self._serving[tenant] -= 1
        if not self._serving[tenant]:
            del self._serving[tenant]
        if not self._waiting:
            return None
        following = min(self._waiting, key=lambda name: self._serving[name])  # the first of equal ones
        line = self._waiting.pop(following)
        item = line.popleft()
        self.waiting -= 1
        if line:
            self._waiting[following] = line  # at the end of the order
        self._start(following)
        return item

    def _start(self, tenant: str) -> None:
        self.in_flight += 1
        self._serving[tenant] += 1


class _Turn(NamedTuple):
    """A call that asked to be served."""

    tenant: str
    came: asyncio.Future[None]
    """Done = it is served, or refused, or its client left."""


class AdmissionQueue:
    """Lets calls in, for one event loop."""

    def __init__(
        self,
        access: AccessConfig,
        *,
        timer: Callable[[], float] = monotonic,
        on_change: Callable[[int, int], None] = lambda _in_flight, _waiting: None,
    ) -> None:
        """``on_change`` is called with the numbers of served and waiting calls."""
        self._line: WaitingLine[_Turn] = WaitingLine(access.max_in_flight, access.max_waiting)
        self._max_in_flight = access.max_in_flight
        self._max_wait_seconds = access.max_wait_seconds
        self._timer = timer
        self._on_change = on_change
        self._mean_seconds = 1.0

    @property
    def in_flight(self) -> int:
        """Number of calls in service."""
        return self._line.in_flight

    @property
    def waiting(self) -> int:
        """Number of waiting calls."""
        return self._line.waiting

    @asynccontextmanager
    async def slot(self, tenant: str) -> AsyncIterator[None]:
        """Serves the block as one call; raises RequestError (503) if there is no room or the wait is too long."""
        await self._enter(tenant)
        started = self._timer()
        try:
            yield
        finally:
            self._mean_seconds += _SMOOTHING * (self._timer() - started - self._mean_seconds)
            self._finish(tenant)

    async def _enter(self, tenant: str) -> None:
        turn = _Turn(tenant, asyncio.get_running_loop().create_future())
        entered = self._line.enter(tenant, turn)
        if entered.displaced is turn:
            raise self._overloaded()
        if entered.displaced is not None and not entered.displaced.came.done():
            entered.displaced.came.set_exception(self._overloaded())
        self._changed()
        if entered.is_served:
            return
        try:
            async with asyncio.timeout(self._max_wait_seconds):
                await turn.came
        except BaseException as exc:
            if turn.came.cancelled():
                self._line.leave(tenant, turn)
                self._changed()
            elif turn.came.exception() is None:  # its turn came when it stopped waiting
                self._finish(tenant)
            if isinstance(exc, TimeoutError):
                raise self._overloaded() from exc
            raise

    def _finish(self, tenant: str) -> None:
        turn = self._line.finish(tenant)
        while turn is not None and turn.came.done():  # it stopped waiting just now
            turn = self._line.finish(turn.tenant)
        if turn is not None:
            turn.came.set_result(None)
        self._changed()

    def _changed(self) -> None:
        self._on_change(self._line.in_flight, self._line.waiting)

    def _overloaded(self) -> RequestError:
        """The error, with the time in which the line should be served as Retry-After."""
        seconds = math.ceil(self._mean_seconds * (self._line.waiting + 1) / self._max_in_flight)
        wait = min(max(1, seconds), _LONGEST_RETRY_SECONDS)
        return RequestError(
            f"the gateway is overloaded: {self._line.in_flight} calls are in service and {self._line.waiting} "
            f"wait; try again in {wait} s",
            status=503,
            code="overloaded",
            retry_after_seconds=wait,
        )
