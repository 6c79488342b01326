"""A pipe from a process, of which the last part is kept."""

import asyncio
import os
from types import TracebackType
from typing import Self

from upturn.environments.sandbox.tail import Tail


class Pipe(asyncio.Protocol):
    """A context: a pipe whose writing end a process gets; what it writes is kept in ``tail``."""

    def __init__(self, limit: int) -> None:
        self.tail = Tail(limit)
        self.closed = asyncio.Event()

    def __enter__(self) -> Self:
        reading, self.writing = os.pipe()
        self._reading = os.fdopen(reading, "rb", buffering=0)
        self._transport: asyncio.ReadTransport | None = None
        self._is_writing_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_writing()
        if self._transport is None:
            self._reading.close()
        else:
            self._transport.close()

    async def read(self) -> None:
        """Begins to read, after the process has got its end."""
        self._close_writing()
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, self._reading)

    def data_received(self, data: bytes) -> None:
        """Keeps it."""
        self.tail.add(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """All have closed the writing end."""
        self.closed.set()

    def _close_writing(self) -> None:
        if self._is_writing_open:
            os.close(self.writing)
            self._is_writing_open = False
