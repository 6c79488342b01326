"""The parts of ASGI that model calls need: reading bodies, watching for departures, sending answers.

Model calls bypass the framework's request and response classes, whose cost per call exceeds that of routing.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from upturn.dialects import Json
from upturn.models.upstreams import Sender

Headers = Iterable[tuple[bytes, bytes]]
JSON_TYPE = "application/json"
STREAM_TYPE = "text/event-stream; charset=utf-8"


RELAY = "upturn.relay"
"""Key of the relay among a request's ASGI extensions."""


HELD = "upturn.held"
"""Key in a message for a relay: the number of the part that it sends as the body, and that it holds until then."""


class Relay(NamedTuple):
    """The process between a client and this one (``workers``)."""

    sender: Sender
    """Sends calls of the request to endpoints."""
    started: float
    """``perf_counter`` at the request's arrival there."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Returns the request's headers by name in lower case; of a repeated one the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


class BodyLimit:
    """Answers 413 to requests of the application whose body is larger than ``limit`` bytes, while they are read."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; raises HTTPException where its body is read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        size = int(declared) if declared.isdigit() else 0
        received = 0

        async def bounded() -> Message:
            nonlocal received
            if size > self._limit:
                raise self._too_large(size)
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit:
                raise self._too_large(received)
            return message

        await self._app(scope, bounded, send)

    def _too_large(self, size: int) -> HTTPException:
        return HTTPException(
            413, f"the body has {size:,} bytes or more; at most {self._limit:,} are read (gateway.max_body_bytes)"
        )


async def read_body(receive: Receive) -> bytes:
    """Returns the body; raises ConnectionError if the client left before its end."""
    chunks: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client left before its request was complete")
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def until_departure(receive: Receive) -> None:
    """Returns when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_start(
    send: Send, status: int, headers: Mapping[str, str], content_type: str, *, held: int | None = None
) -> None:
    """Sends status and headers. ``held``: the body is the part that the relay holds; it adds the length."""
    raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    message: MutableMapping[str, Any] = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", content_type.encode("latin-1")), *raw],
    }
    await send(message if held is None else {**message, HELD: held})


async def send_body(send: Send, content: bytes, *, is_last: bool) -> None:
    """Sends a part of the body."""
    await send({"type": "http.response.body", "body": content, "more_body": not is_last})


async def send_held(send: Send, held: int) -> None:
    """Sends the part that the relay holds, as the last one."""
    await send({"type": "http.response.body", "body": b"", "more_body": False, HELD: held})


async def send_json(send: Send, status: int, body: Json, headers: Mapping[str, str]) -> None:
    """Sends a whole answer."""
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    await send_start(send, status, {**headers, "content-length": str(len(content))}, JSON_TYPE)
    await send_body(send, content, is_last=True)


async def cancel(task: "asyncio.Task[Any]") -> None:
    """Cancels the task and waits until it has ended."""
    task.cancel()
    await asyncio.wait([task])
