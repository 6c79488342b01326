"""Ports of the host's loopback that a program in a sandbox reaches, and what ``enter`` says on their channel."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from upturn.environments.sandbox.enter import ENTERED

_PIECE = 2**16
_MOST_CONNECTIONS = 256
"""At the same time, for one command: each takes two descriptors of this process."""


class HostPorts:
    """An async context: connections to the sandbox's ports reach the same ports of the host in it."""

    def __init__(self, channel: socket.socket, ports: Sequence[int]) -> None:
        """``channel``: the other end of the one that ``enter`` got."""
        self._channel, self._ports = channel, ports
        self._listeners = list[socket.socket]()
        self._servers = list[asyncio.Server]()
        self._connections = set[asyncio.Task[object]]()
        self._said = b""

    async def __aenter__(self) -> Self:
        self._channel.setblocking(False)
        self._serving = asyncio.ensure_future(self._serve())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        for listener in self._listeners:
            listener.close()
        tasks = (self._serving, *self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def report(self) -> bytes | None:
        """After the command: the ``errno`` of one that did not start, else nothing; None = ``enter`` never ran."""
        with suppress(BlockingIOError):
            self._receive()
        with suppress(BlockingIOError):
            self._said += self._channel.recv(100)
        return self._said.removeprefix(ENTERED) if self._said.startswith(ENTERED) else None

    async def _serve(self) -> None:
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._channel, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._channel)
        self._receive()
        for listener, port in zip(self._listeners, self._ports, strict=False):
            self._servers.append(await asyncio.start_server(_Forwarding(port, self._connections), sock=listener))

    def _receive(self) -> None:
        said, descriptors, _, _ = socket.recv_fds(self._channel, 100, len(self._ports))
        self._said += said
        self._listeners += [socket.socket(fileno=descriptor) for descriptor in descriptors]


class _Forwarding:
    """Forwards accepted connections to a port of the host."""

    def __init__(self, port: int, connections: set[asyncio.Task[object]]) -> None:
        self._port, self._connections = port, connections

    def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _MOST_CONNECTIONS:
            writer.close()
            return
        task: asyncio.Task[object] = asyncio.ensure_future(self._forward(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):  # nothing listens on the host's port
                from_host, to_host = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    async with asyncio.TaskGroup() as both:
                        both.create_task(_copy(reader, to_host))
                        both.create_task(_copy(from_host, writer))
                except* OSError:  # one side has gone
                    pass
                finally:
                    to_host.close()
        finally:
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
