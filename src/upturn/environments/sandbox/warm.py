"""A function in a process of its own for each attempt, which is forked from one that has imported it already.

As ``run_command``, without a sandbox, for a program that is Python: importing a client library takes longer than
starting a process. The module is imported once, so what it does at import happens once: it must not start
threads, and a random generator that it seeds there (also numpy's global one) is the same in each attempt.
``atexit`` functions are not called.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from upturn.environments.sandbox.command import (
    GRACE_SECONDS,
    PIPE_SECONDS,
    Call,
    CommandEnd,
    Launch,
    command_end,
    run_supervised,
    waits_longer,
)
from upturn.environments.sandbox.fork_server import READY, RUN
from upturn.environments.sandbox.nameless_file import nameless_file
from upturn.environments.sandbox.tail import Tail

_SERVER = Path(__file__).with_name("fork_server.py")
_SERVER_OUTPUT = 10_000
"""Bytes kept of what is written at import."""
_QUOTED = 500


class WarmProgram:
    """Belongs to the event loop that uses it first. Attempts may run at the same time."""

    def __init__(self, import_path: str, *, folder: Path, environment: Mapping[str, str]) -> None:
        """``import_path``: ``module:function``, imported from ``folder`` first, with these variables.

        The function gets the input, parsed as JSON, if it has a parameter; it may be async. What it returns goes to
        the standard output: text as it is, None not at all, other values as JSON.
        """
        self._import_path, self._folder, self._environment = import_path, folder, environment
        self._server: asyncio.Task[CommandEnd] | None = None
        self._channel: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def run(
        self,
        *,
        environment: Mapping[str, str],
        input: bytes,  # noqa: A002
        folder: Path,
        output_limit: int,
        timeout_seconds: float | None = None,
    ) -> CommandEnd:
        """As ``run_command``. Raises RuntimeError where the program cannot be imported.

        Where the process with the import ends, its attempts end with -9, and the next one starts it again.
        """
        request = json.dumps({"environment": dict(environment), "folder": str(folder)}).encode()
        control, theirs = socket.socketpair()
        control.setblocking(False)
        with control, _Pipe(output_limit) as output, _Pipe(output_limit) as errors:
            with theirs, nameless_file(request) as wanted, nameless_file(input) as given:
                await self._send((wanted, given, output.writing, errors.writing, theirs.fileno()))
            try:
                await output.read()
                await errors.read()
                report = await _report(control, timeout_seconds)
            finally:
                control.shutdown(socket.SHUT_WR)
                await waits_longer(_closed(control), GRACE_SECONDS)
                await waits_longer(asyncio.gather(output.closed.wait(), errors.closed.wait()), PIPE_SECONDS)
        return command_end(report, output.tail, errors.tail)

    async def close(self) -> None:
        """Ends the process with the import and its attempts; a later ``run`` starts it again."""
        if self._server is not None:
            self._server.cancel()
            await asyncio.gather(self._server, return_exceptions=True)
        self._forget()

    async def _send(self, descriptors: Sequence[int]) -> None:
        """To the server, which is started again where it has ended meanwhile."""
        try:
            socket.send_fds(await self._started(), [RUN], descriptors)
        except BrokenPipeError:
            if self._server is not None:
                await asyncio.wait((self._server,))
            socket.send_fds(await self._started(), [RUN], descriptors)

    async def _started(self) -> socket.socket:
        async with self._starting:
            if self._server is not None and self._server.done():
                self._forget()
            if self._channel is None:
                self._channel = await self._start()
            return self._channel

    async def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        command = (sys.executable, "-P", str(_SERVER), str(theirs.fileno()), self._import_path)
        call = Call(command, self._environment, b"", self._folder, _SERVER_OUTPUT, None)
        self._server = asyncio.ensure_future(run_supervised(call, Launch(passed=(theirs.fileno(),))))
        said = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(ours, len(READY)))
        try:
            with theirs:
                await asyncio.wait((said, self._server), return_when=asyncio.FIRST_COMPLETED)
            if said.done() and said.result() == READY:
                ours.setblocking(True)
                return ours
            end = await self._server
        except BaseException:
            ours.close()
            await self.close()
            raise
        finally:
            said.cancel()
        ours.close()
        self._server = None
        message = f"the program {self._import_path!r} cannot be imported: it ended with {end.exit_code}: "
        raise RuntimeError(message + end.errors.strip()[-_QUOTED:])

    def _forget(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._server = self._channel = None


class _Pipe(asyncio.Protocol):
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
        self.tail.add(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.closed.set()

    def _close_writing(self) -> None:
        if self._is_writing_open:
            os.close(self.writing)
            self._is_writing_open = False


async def _report(control: socket.socket, seconds: float | None) -> int | None:
    """The exit code that the supervisor says; None = none in that time, -9 = it has ended without one."""
    try:
        async with asyncio.timeout(seconds):
            said = await asyncio.get_running_loop().sock_recv(control, 100)
    except TimeoutError:
        return None
    except ConnectionError:  # nobody has received the descriptors of the attempt
        said = b""
    kind, _, number = said.decode().partition(" ")
    return int(number) if kind else -signal.SIGKILL


async def _closed(control: socket.socket) -> None:
    """Returns when the supervisor has ended."""
    with suppress(ConnectionError):
        while await asyncio.get_running_loop().sock_recv(control, 100):
            pass
