"""Connections to one server: HTTP/1.1 requests over connections that are kept open.

Only what model calls need: POST with a whole body, and responses that are read as they come. Not here: redirects,
cookies, compression, proxies, HTTP/2. A general client takes three times the processor time per call, which is a
sixth of that of the whole gateway (docs/decisions.md).
"""

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Mapping
from socket import gaierror
from time import monotonic
from typing import cast
from urllib.parse import urlsplit

import httptools

from upturn.errors import ModelError

_KEPT_SECONDS = 30.0
"""Time after which an unused connection is closed."""
_LARGEST_BUFFER = 262_144
"""Unread bytes of a response from which on the server has to wait."""


class UnreachableError(ConnectionError):
    """No connection to the server could be opened."""


class BrokenResponseError(ConnectionError):
    """The server closed the connection before the end of its response, or sent what is not HTTP."""


class Response:
    """A response whose status and headers have come. For one event loop."""

    def __init__(self, connection: "_Connection") -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """By name in lower case; of a repeated one the last."""
        self._connection = connection
        self._parts: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: BrokenResponseError | None = None
        self._is_closed = False
        self.is_received = False
        """Whether its last byte has come."""

    @property
    def is_over(self) -> bool:
        """Whether all of it has been read."""
        return self.is_received and not self._parts

    async def read(self) -> bytes:
        """Returns more of the body; empty = it is over. Raises BrokenResponseError."""
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self.is_received:
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        content = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        if self._size > _LARGEST_BUFFER:
            self._connection.hold(False)
        self._size = 0
        return content

    def close(self) -> None:
        """Ends the response; its connection is used again if all of it has come. Closing twice is allowed."""
        if not self._is_closed:
            self._is_closed = True
            self._connection.release(is_reusable=self.is_received)

    def add(self, part: bytes) -> None:
        """A part of the body has come."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > _LARGEST_BUFFER:
            self._connection.hold(True)
        self._wake()

    def end(self, error: BrokenResponseError | None) -> None:
        """Nothing more will come; ``error`` None = the response is complete."""
        if not self.is_received:
            self.is_received, self._error = error is None, error
            self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class _Connection(asyncio.Protocol):
    """One connection: a request, its response, and so on."""

    def __init__(self, pool: "Connections") -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._response: Response | None = None
        self._head: asyncio.Future[Response] | None = None
        self._has_length = False
        self._is_kept_alive = False
        self.idle_since = 0.0

    async def ask(self, request: bytes) -> Response:
        """Sends the request; returns its response once the headers have come. Raises BrokenResponseError."""
        self._response, self._has_length, self._is_kept_alive = Response(self), False, False
        self._head = asyncio.get_running_loop().create_future()
        if self._transport is None:
            self._break(None)
        else:
            self._transport.write(request)
        try:
            return await self._head
        except BaseException:
            self.abort()
            raise

    def release(self, *, is_reusable: bool) -> None:
        """Ends the use for one response."""
        self._response = self._head = None
        if is_reusable and self._is_kept_alive and self._transport is not None:
            self.hold(False)
            self.idle_since = monotonic()
            self._pool.keep(self)
        else:
            self.abort()

    @property
    def is_open(self) -> bool:
        """Whether the server has not closed it."""
        return self._transport is not None and not self._transport.is_closing()

    def abort(self) -> None:
        """Closes it at once."""
        if self._transport is not None:
            self._transport.abort()

    def hold(self, is_held: bool) -> None:
        """Lets the server wait, or go on."""
        if self._transport is None:
            return
        if is_held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._response is None:  # nothing was asked
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._break(f"its response is not HTTP: {exc}")
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The server has closed it, or it broke."""
        self._transport = None
        self._pool.drop(self)
        response = self._response
        if response is not None and response.status and not self._has_length:
            response.end(None)  # the end of such a body is that of the connection
        self._break(None if exc is None else str(exc))

    def _break(self, reason: str | None) -> None:
        error = BrokenResponseError(reason or "the server closed the connection too early")
        if self._head is not None and not self._head.done():
            self._head.set_exception(error)
        if self._response is not None:
            self._response.end(error)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header has come."""
        assert self._response is not None
        key = name.decode("latin-1").lower()
        self._response.headers[key] = value.decode("latin-1")
        self._has_length = self._has_length or key in ("content-length", "transfer-encoding")

    def on_headers_complete(self) -> None:
        """All headers have come."""
        status = self._parser.get_status_code()
        assert self._response is not None
        if self._response.is_received:  # a second response to one request
            self._is_kept_alive = False
            return
        if status < 200:  # such as 103; the response follows
            self._response.headers.clear()
            return
        self._response.status = status
        self._is_kept_alive = self._parser.should_keep_alive()
        if self._head is not None and not self._head.done():
            self._head.set_result(self._response)

    def on_body(self, body: bytes) -> None:
        """A part of the body has come."""
        if self._response is not None and not self._response.is_received:
            self._response.add(body)

    def on_message_complete(self) -> None:
        """The last byte has come."""
        if self._response is not None and self._response.status:
            self._response.end(None)


class Connections:
    """Sends requests to the server of a URL. For one event loop."""

    def __init__(self, base: str, *, connect_seconds: float) -> None:
        """``base``: URL with http or https. ``connect_seconds``: longest time for opening a connection."""
        parts = urlsplit(base)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._netloc = parts.netloc.rpartition("@")[2]
        self._path = parts.path
        self._has_tls = parts.scheme == "https"
        self._tls: ssl.SSLContext | None = None
        self._connect_seconds = connect_seconds
        self._open: set[_Connection] = set()
        self._idle: deque[_Connection] = deque()
        """The one that was used last is at the end."""

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Returns the response to a POST of ``path`` below the base, once its headers have come.

        Raises UnreachableError, BrokenResponseError, and ModelError for a header that is no header.
        """
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        text = "".join(lines)
        if text.count("\n") != len(lines) or text.count("\r") != len(lines):
            raise ModelError("a header for the agent's server has a line break; check the key of the agent")
        head = (
            f"POST {self._path}{path} HTTP/1.1\r\nhost: {self._netloc}\r\n{text}content-length: {len(body)}\r\n\r\n"
        )
        connection = self._kept() or await self._opened()
        return await connection.ask(head.encode() + body)

    def keep(self, connection: _Connection) -> None:
        """Keeps a connection for the next request."""
        self._idle.append(connection)
        oldest = self._idle[0]
        if monotonic() - oldest.idle_since > _KEPT_SECONDS:
            self._idle.popleft().abort()

    def drop(self, connection: _Connection) -> None:
        """Forgets a connection that is closed."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Closes all connections."""
        for connection in self._open:
            connection.abort()

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and monotonic() - connection.idle_since <= _KEPT_SECONDS:
                return connection
            connection.abort()
        return None

    async def _opened(self) -> _Connection:
        if self._has_tls and self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self), self._host, self._port, ssl=self._tls
                )
        except TimeoutError as exc:
            raise UnreachableError(
                f"no connection within {self._connect_seconds:g} s (agents.upstream.timeouts.connect)"
            ) from exc
        except OSError as exc:
            raise UnreachableError(_reason(exc)) from exc
        self._open.add(connection)
        return connection


def _reason(error: OSError) -> str:
    """Returns why a connection could not be opened; asyncio's text leaves it out."""
    if isinstance(error, ssl.SSLError | gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno)
