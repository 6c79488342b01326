"""The parts of ASGI that model calls need: reading bodies, watching for departures, sending answers.

Model calls bypass the framework's request and response classes, whose cost per call exceeds that of routing.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from upturn.dialects import Json, RequestError
from upturn.models.upstreams import Sender

Headers = Iterable[tuple[bytes, bytes]]
JSON_TYPE = "application/json"
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large", 415: "unsupported_encoding"}
STREAM_TYPE = "text/event-stream; charset=utf-8"

_RETRY_SECONDS = 5
"""After which a store that is full or locked may be used again."""
_log = logging.getLogger("upturn.gateway")


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


def code_of(status: int) -> str:
    """Returns the code of an error for which the framework or ``BodyLimit`` gives a status only."""
    return _CODES.get(status, "invalid_request")


def unavailable(error: Exception) -> RequestError:
    """Returns the error for a client whose request fails because of the pool; logs what the pool's error says."""
    _log.error("a request failed: %s", error)
    return RequestError(
        "the gateway cannot use its store at the moment, and has kept nothing of this request; try again",
        status=503,
        code="unavailable",
        retry_after_seconds=_RETRY_SECONDS,
    )


class BodyLimit:
    """Answers 413 to requests of the application whose body is larger than ``limit`` bytes, while they are read.

    Compressed bodies are answered with 415: their size is known only when they are unpacked. ``unpacked``: paths of
    endpoints that unpack them within the limit.
    """

    def __init__(self, app: ASGIApp, limit: int, unpacked: tuple[str, ...] = ()) -> None:
        self._app = app
        self._limit = limit
        self._unpacked = unpacked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; raises HTTPException where its body is read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        declared, encoding = headers.get(b"content-length", b""), headers.get(b"content-encoding", b"")
        size = int(declared) if declared.isdigit() else 0
        received = 0

        async def bounded() -> Message:
            nonlocal received
            if encoding not in (b"", b"identity") and scope["path"] not in self._unpacked:
                raise HTTPException(
                    415, f"content-encoding {encoding.decode('latin-1')!r:.100}; send bodies uncompressed"
                )
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


async def while_connected(receive: Receive, work: Awaitable[None], *, is_over: Callable[[], bool]) -> None:
    """Returns when the work is done.

    If the client leaves before it ``is_over``, the work is cancelled, and ConnectionError raised when it has ended.
    The work runs in the current task: another one for it would take two turns of the event loop.
    """
    task, has_left, has_ended = asyncio.current_task(), False, False
    assert task is not None

    def leave(_watching: "asyncio.Future[None]") -> None:
        nonlocal has_left
        if not (has_ended or is_over()):
            has_left = True
            task.cancel()

    watching = asyncio.ensure_future(_until_departure(receive))
    watching.add_done_callback(leave)
    try:
        await work
    except asyncio.CancelledError:
        if has_left and not task.uncancel():
            raise ConnectionError("the client left before the answer's end") from None
        raise
    finally:
        has_ended = True
        watching.cancel()


async def _until_departure(receive: Receive) -> None:
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
