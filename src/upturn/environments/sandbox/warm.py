"""A function in a process of its own for each attempt, which is forked from one that has imported it already.

As ``run_command``, without a sandbox, for a program that is Python: importing a client library takes longer than
starting a process. The module is imported once, so what it does at import happens once: it must not start
threads, and a random generator that it seeds there (also numpy's global one) is the same in each attempt.
``atexit`` functions are not called.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from upturn.environments.sandbox.command import Call, CommandEnd, Launch, command_end, run_supervised
from upturn.environments.sandbox.control import exit_code, last_words
from upturn.environments.sandbox.fork_server import READY, RUN
from upturn.environments.sandbox.nameless_file import nameless_file
from upturn.environments.sandbox.pipe import Pipe

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
        with control, Pipe(output_limit) as output, Pipe(output_limit) as errors:
            with theirs, nameless_file(request) as wanted, nameless_file(input) as stdin:
                await self._send((wanted, stdin, output.writing, errors.writing, theirs.fileno()))
            said = await last_words(control, (output, errors), timeout_seconds)
        return command_end(exit_code(said), output.tail, errors.tail)

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
