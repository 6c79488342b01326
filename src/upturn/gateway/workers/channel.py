"""A stream of messages between two processes of one gateway, over a pair of connected sockets.

Messages are pickled. Nobody else can write to the sockets: they have no name, and are inherited.
"""

import asyncio
import pickle
from collections.abc import Callable
from socket import socket
from typing import Any, cast

_LENGTH_BYTES = 8


class Channel(asyncio.Protocol):
    """One end. For one event loop."""

    def __init__(self, on_message: Callable[[Any], None], on_close: Callable[[], None] = lambda: None) -> None:
        """``on_message`` is called with each message, in order; ``on_close`` once, when the other end is gone."""
        self._on_message = on_message
        self._on_close = on_close
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._unsent: list[bytes] = []

    async def connect(self, end: socket) -> None:
        """Starts sending and receiving on a connected socket, which the channel closes."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=end)

    def send(self, message: object) -> None:
        """Sends a message with others of this turn of the event loop; drops it if the other end is gone."""
        if self._transport is None:
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._unsent += (len(content).to_bytes(_LENGTH_BYTES, "little"), content)

    def close(self) -> None:
        """Ends the connection, after what was sent."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has the methods and no common base

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        received = self._received
        received += data
        start = 0
        while len(received) - start >= _LENGTH_BYTES:
            body = start + _LENGTH_BYTES
            end = body + int.from_bytes(received[start:body], "little")
            if len(received) < end:
                break
            message = pickle.loads(received[body:end])
            start = end
            self._on_message(message)
        del received[:start]

    def connection_lost(self, _error: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = None
        self._on_close()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and unsent:
            self._transport.writelines(unsent)
