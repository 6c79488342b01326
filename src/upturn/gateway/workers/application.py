"""The ASGI application of a worker: it hands requests to the main process and passes the answers on."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from upturn.dialects import RequestError, dialect_of
from upturn.gateway.http import HELD, send_body, send_json, while_connected
from upturn.gateway.workers.channel import Channel
from upturn.gateway.workers.messages import (
    Answer,
    Asked,
    Closed,
    Departed,
    Finished,
    Open,
    Pass,
    Stop,
    ToWorker,
)
from upturn.gateway.workers.tries import Tries, Try

_SCOPE_KEYS = (
    "type",
    "http_version",
    "scheme",
    "method",
    "root_path",
    "path",
    "raw_path",
    "query_string",
    "headers",
)


@dataclass(slots=True, eq=False)
class _Request:
    """One request of a client."""

    number: int
    body: bytes
    send: Send
    orders: "asyncio.Queue[Message | Try | Finished | None]" = field(default_factory=asyncio.Queue)
    """ASGI messages to send and tries to pass; None = the main process has ended."""
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    is_started: bool = False
    is_complete: bool = False
    """The last part of its answer is sent."""


class WorkerApp:
    """The application. For one event loop."""

    def __init__(self, max_body_bytes: int, on_stop: Callable[[], None]) -> None:
        """``on_stop`` is called when the worker has to end: by order, or as the main process is gone."""
        self._limit = max_body_bytes
        self._on_stop = on_stop
        self.channel = Channel(self._on_message, self._on_close)
        """To the main process; connect it first."""
        self.tries = Tries(self.channel.send)
        self._requests: dict[int, _Request] = {}
        self._last = 0
        self._is_alone = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        started = perf_counter()
        try:
            body = await self._read(receive)
        except ConnectionError:
            return
        self._last += 1
        request = _Request(self._last, body, send)
        if self._is_alone:
            await _refuse(request, scope)
            return
        self._requests[request.number] = request
        self.channel.send(Asked(request.number, _plain(scope), body, started))
        try:
            await while_connected(receive, self._answer(request, scope), is_over=lambda: request.is_complete)
        except ConnectionError:
            if self._is_alone:
                raise  # the server has to break off the answer
            self.tries.report(request.number)
            self.channel.send(Departed(request.number))
            await request.finished.wait()
        finally:
            del self._requests[request.number]

    async def _read(self, receive: Receive) -> bytes:
        """Returns the body, at most one byte more than is allowed: the main process refuses it."""
        content = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("the client left before its request was complete")
            content += message.get("body", b"")[: self._limit + 1 - len(content)]
            if not message.get("more_body", False) or len(content) > self._limit:
                return bytes(content)

    async def _answer(self, request: _Request, scope: Scope) -> None:
        while not isinstance(order := await request.orders.get(), Finished):
            if order is None:
                await _refuse(request, scope)
                return
            if isinstance(order, Try):
                async for part in order.parts():
                    await send_body(request.send, part, is_last=False)
            else:
                request.is_started = True
                request.is_complete = order["type"] == "http.response.body" and not order.get("more_body", False)
                await request.send(order)

    def _on_message(self, message: ToWorker) -> None:
        match message:
            case Open(number):
                if (request := self._requests.get(number)) is not None:
                    self.tries.open(message, request.body)
            case Pass(number, tried):
                if (request := self._requests.get(number)) is not None:
                    request.orders.put_nowait(self.tries.of(tried))
            case Answer(number, content):
                if (request := self._requests.get(number)) is not None:
                    request.orders.put_nowait(self._completed(content))
            case Closed(tried):
                self.tries.close(tried)
            case Finished(number):
                if (request := self._requests.get(number)) is not None:
                    request.orders.put_nowait(message)
                    request.finished.set()
            case Stop():
                self._on_stop()

    def _completed(self, message: Mapping[str, Any]) -> Message:
        """Returns the ASGI message with the part that was held back for it."""
        if HELD not in message:
            return dict(message)
        held = self.tries.of(message[HELD]).held
        if message["type"] == "http.response.body":
            return {**message, "body": held}
        return {**message, "headers": [*message["headers"], (b"content-length", str(len(held)).encode())]}

    def _on_close(self) -> None:
        self._is_alone = True
        for request in self._requests.values():
            request.orders.put_nowait(None)
            request.finished.set()
        self.tries.close_all()
        self._on_stop()


async def _refuse(request: _Request, scope: Scope) -> None:
    """Answers while the main process is gone; raises ConnectionError if a part of an answer was sent already."""
    if request.is_started:
        raise ConnectionError("the gateway ended in the middle of an answer")
    dialect = dialect_of("messages" if "/v1/messages" in scope["path"] else "chat")
    error = RequestError(
        "the gateway is stopping; try again in 5 s", status=503, code="unavailable", retry_after_seconds=5
    )
    await send_json(request.send, error.status, dialect.error(error), {"retry-after": "5"})


def _plain(scope: Scope) -> Mapping[str, Any]:
    """Returns what the application needs of a scope."""
    client, server = scope.get("client"), scope.get("server")
    return {
        **{key: scope[key] for key in _SCOPE_KEYS if key in scope},
        "asgi": dict(scope["asgi"]),
        "client": None if client is None else tuple(client),
        "server": None if server is None else tuple(server),
    }
