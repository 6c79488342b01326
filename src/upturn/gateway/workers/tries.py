"""A worker's tries at endpoints."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from time import perf_counter

from upturn.dialects import dialect_of
from upturn.gateway.retries import LARGEST_ANSWER
from upturn.gateway.workers.messages import Ended, Failed, FromWorker, Open, Opened
from upturn.models.upstreams import Attempt, EndpointClient, UpstreamCall, UpstreamError

_log = logging.getLogger("upturn.gateway")


class Tries:
    """All tries that are open. For one event loop."""

    def __init__(self, send: Callable[[FromWorker], None]) -> None:
        self._send = send
        self._clients: dict[int, EndpointClient] = {}
        self._tries: dict[int, Try] = {}

    def open(self, message: Open, body: bytes) -> None:
        """Begins a try; ``body``: of the client's request."""
        if message.endpoint is not None:
            self._clients[message.endpoint_id] = EndpointClient(message.endpoint)
        call = UpstreamCall(
            body if message.body is None else message.body,
            message.asked,
            dialect_of(message.dialect),
            message.headers,
            message.answer_id,
        )
        self._tries[message.number] = Try(message, call, self._clients[message.endpoint_id], self._send)

    def of(self, number: int) -> "Try":
        """Returns an open try."""
        return self._tries[number]

    def report(self, request: int) -> None:
        """Sends what has come of a request's tries, whose client has left."""
        for one in self._tries.values():
            if one.request == request and (ended := one.ended(is_complete=False)) is not None:
                self._send(ended)

    def close(self, number: int) -> None:
        """Ends a try."""
        if (one := self._tries.pop(number, None)) is not None:
            one.close()

    def close_all(self) -> None:
        """Ends all tries."""
        for number in list(self._tries):
            self.close(number)

    async def disconnect(self) -> None:
        """Ends all tries and connections."""
        self.close_all()
        for client in self._clients.values():
            await client.close()


class Try:
    """One try."""

    def __init__(
        self, message: Open, call: UpstreamCall, client: EndpointClient, send: Callable[[FromWorker], None]
    ) -> None:
        self.request = message.request
        self._number = message.number
        self._has_to_keep = message.has_to_keep
        self._send = send
        self._exchange: Attempt | None = None
        self._held: list[bytes] = []
        self._kept = bytearray()
        self._is_closed = False
        self._running = asyncio.ensure_future(self._run(call, client, perf_counter() + message.seconds))
        self._running.add_done_callback(self._report)

    @property
    def held(self) -> bytes:
        """The part that ends the answer."""
        return b"".join(self._held)

    def ended(self, *, is_complete: bool) -> Ended | None:
        """Returns what has come so far; None = nothing."""
        if self._exchange is None:
            return None
        return Ended(self._number, self._exchange.outcome, self._exchange.verdict, is_complete, bytes(self._kept))

    async def parts(self) -> AsyncIterator[bytes]:
        """The answer, but for the part that ends it, which is held back; then ``Ended`` is sent."""
        assert self._exchange is not None, "only opened tries are passed"
        async for chunk in self._exchange.chunks():
            if self._is_closed:
                return
            if self._has_to_keep:
                self._kept += chunk.content[: LARGEST_ANSWER + 1 - len(self._kept)]
            if chunk.is_end or self._held:
                self._held.append(chunk.content)
            else:
                yield chunk.content
        if (ended := self.ended(is_complete=True)) is not None:
            self._send(ended)

    def close(self) -> None:
        """Ends the call."""
        self._is_closed = True
        self._running.cancel()

    async def _run(self, call: UpstreamCall, client: EndpointClient, deadline: float) -> None:
        try:
            async with client.open(call, deadline) as exchange:
                self._exchange = exchange
                ended = None
                if not call.request.is_streamed:
                    async for chunk in exchange.chunks():
                        self._held.append(chunk.content)
                    if self._has_to_keep:
                        self._kept += self.held[: LARGEST_ANSWER + 1]
                    ended = self.ended(is_complete=True)
                self._send(Opened(self._number, ended, exchange.verdict))
                await asyncio.get_running_loop().create_future()  # until it is closed
        except UpstreamError as exc:
            self._send(Failed(self._number, exc))

    def _report(self, running: "asyncio.Task[None]") -> None:
        if not running.cancelled() and (error := running.exception()) is not None:
            _log.error("a call of an endpoint failed", exc_info=error)
            text = "the call failed in the gateway; its log says why"
            self._send(Failed(self._number, UpstreamError(text, kind="protocol")))
