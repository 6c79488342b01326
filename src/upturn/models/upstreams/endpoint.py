"""An upstream behind a URL: any server that speaks one of the three dialects.

A try that fails before the first part of the answer is repeated, within a budget; a circuit breaker and a limit of
calls protect the server. Beside a slow try, a second one may begin (``hedge``). ``endpoint_client`` has the try
itself.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from random import uniform
from time import perf_counter
from typing import Any, NamedTuple

from upturn.models.upstreams.breaker import Breaker, CallLimit, Permit, RetryBudget
from upturn.models.upstreams.endpoint_client import EndpointClient
from upturn.models.upstreams.hedge import raced
from upturn.models.upstreams.upstream import (
    Attempt,
    BreakerState,
    Endpoint,
    Exchange,
    Forwarded,
    UpstreamCall,
    UpstreamError,
    Verdict,
)

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FIRST_WAIT_SECONDS = 0.25
_LONGEST_WAIT_SECONDS = 10.0
"""Also the longest Retry-After that is waited for; the client gets a longer one."""


class _Opened(NamedTuple):
    """An attempt that has begun to answer."""

    exchange: Attempt
    permit: Permit
    stack: AsyncExitStack
    """Ends the attempt."""


class EndpointUpstream:
    """Calls an endpoint. For one event loop."""

    def __init__(
        self, endpoint: Endpoint, *, sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    ) -> None:
        """``sleep``: waits before retries and second attempts. Raises ModelError for a URL that is not http(s)."""
        self._endpoint = endpoint
        self._client = EndpointClient(endpoint)
        self.settings = settings = endpoint.settings
        name = repr(endpoint.model)
        self.breaker = Breaker(name, settings.breaker_failures, settings.breaker_seconds)
        self._budget = RetryBudget(settings.retry_share)
        self._sleep = sleep
        self.limit = CallLimit(name, settings.max_concurrent, settings.max_waiting, settings.timeouts.first_token)

    @asynccontextmanager
    async def open(self, call: UpstreamCall) -> AsyncIterator[Exchange]:
        """Sends the call; see ``Upstream.open``."""
        async with self.limit.place(), AsyncExitStack() as stack:
            exchange, permit = await self._answered(call, stack)
            try:
                yield exchange
            finally:
                permit.report(exchange.verdict)

    @property
    def breaker_state(self) -> BreakerState:
        """State of its circuit breaker."""
        return self.breaker.state

    async def embed(self, body: bytes) -> Forwarded:
        """The answer to a request for embeddings; see ``Upstream.embed``."""
        async with self.limit.place():
            permit = self.breaker.admit()
            verdict: Verdict = "failed"
            try:
                answer = await self._client.embed(body)
                verdict = "answered"
            except UpstreamError as exc:
                verdict = _verdict(exc)
                raise
            finally:
                permit.report(verdict)
        return answer

    async def close(self) -> None:
        """Ends all connections."""
        await self._client.close()

    def _try(self, call: UpstreamCall, deadline: float) -> AbstractAsyncContextManager[Attempt]:
        if call.sender is not None:
            return call.sender.open(self._endpoint, call, deadline)
        return self._client.open(call, deadline)

    async def _answered(self, call: UpstreamCall, stack: AsyncExitStack) -> tuple[Attempt, Permit]:
        """The exchange with its first part; tries again after failures that may pass."""
        deadline = perf_counter() + self.settings.timeouts.whole
        self._budget.count_call()
        permit, tries = self.breaker.admit(), 0
        while True:
            try:
                opened = await self._hedged(call, deadline, permit)
            except UpstreamError as exc:
                wait = _wait(exc, tries)
                may_pass = exc.status in _RETRIED or exc.kind == "connect"
                is_last = tries >= self.settings.retries or self.breaker.state == "open"
                if not may_pass or is_last or wait is None or perf_counter() + wait > deadline:
                    raise
                if not self._budget.take():
                    raise
                tries += 1
                await self._sleep(wait)
                try:
                    permit = self.breaker.admit()
                except UpstreamError:
                    raise exc from None
            else:
                await stack.enter_async_context(opened.stack)
                return opened.exchange, opened.permit

    async def _hedged(self, call: UpstreamCall, deadline: float, permit: Permit) -> _Opened:
        """The first part of an answer; of two attempts where the first is slow, at most once a call."""
        first, seconds = self._opened(call, deadline, permit), self.settings.hedge_after_seconds
        if seconds is None or call.hedge.answered_by:
            return await first

        def second() -> Coroutine[Any, Any, _Opened] | None:
            if self.limit.is_full or self.breaker.state != "closed" or not self._budget.take():
                return None
            return self._opened_beside(call, deadline)

        return await raced(first, self._sleep(seconds), second, hedge=call.hedge, discard=_discard)

    async def _opened_beside(self, call: UpstreamCall, deadline: float) -> _Opened:
        """A second attempt, with a place of its own until one of both has answered."""
        async with self.limit.place():
            return await self._opened(call, deadline, self.breaker.admit())

    async def _opened(self, call: UpstreamCall, deadline: float, permit: Permit) -> _Opened:
        """One attempt; the permit gets its verdict."""
        stack = AsyncExitStack()
        try:
            exchange = await stack.enter_async_context(self._try(call, deadline))
        except UpstreamError as exc:
            permit.report(_verdict(exc))
            raise
        except BaseException:
            permit.report("none")
            raise
        permit.report("begun")
        return _Opened(exchange, permit, stack)


async def _discard(opened: _Opened) -> None:
    await opened.stack.aclose()
    opened.permit.report("none")


def _verdict(error: UpstreamError) -> Verdict:
    """What a failed try says about the server: a refused request or a rate limit is no failure."""
    if error.kind == "unsendable":
        return "none"
    return "answered" if error.is_fault_of_request or error.status == 429 else "failed"


def _wait(error: UpstreamError, tries: int) -> float | None:
    """Seconds before the next try; None = the server wants to be left alone for longer than we wait."""
    if error.retry_after_seconds is not None:
        return None if error.retry_after_seconds > _LONGEST_WAIT_SECONDS else float(error.retry_after_seconds)
    longest = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0**tries)
    return uniform(longest / 2, longest)  # calls that failed together must not come back together
