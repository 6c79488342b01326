"""An upstream behind a URL: any server that speaks one of the three dialects.

A try that fails before the first part of the answer is repeated, within a budget; a circuit breaker and a limit of
calls protect the server. ``endpoint_client`` has the try itself.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from random import uniform
from time import perf_counter

from upturn.models.upstreams.breaker import Breaker, CallLimit, Permit, RetryBudget
from upturn.models.upstreams.endpoint_client import EndpointClient
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


class EndpointUpstream:
    """Calls an endpoint. For one event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Raises ModelError for a URL that is not http(s)."""
        self._endpoint = endpoint
        self._client = EndpointClient(endpoint)
        self.settings = settings = endpoint.settings
        name = repr(endpoint.model)
        self.breaker = Breaker(name, settings.breaker_failures, settings.breaker_seconds)
        self._budget = RetryBudget(settings.retry_share)
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
                exchange = await stack.enter_async_context(self._try(call, deadline))
            except UpstreamError as exc:
                permit.report(_verdict(exc))
                wait = _wait(exc, tries)
                may_pass = exc.status in _RETRIED or exc.kind == "connect"
                is_last = tries >= self.settings.retries or self.breaker.state == "open"
                if not may_pass or is_last or wait is None or perf_counter() + wait > deadline:
                    raise
                if not self._budget.take():
                    raise
                tries += 1
                await asyncio.sleep(wait)
                try:
                    permit = self.breaker.admit()
                except UpstreamError:
                    raise exc from None
            except BaseException:
                permit.report("none")
                raise
            else:
                permit.report("begun")
                return exchange, permit


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
