"""A command in processes of its own, which have all ended when its call returns.

Without a sandbox. What holds then: the command, its children and its daemons end with the call, with the caller's
cancellation, at the time-out and with the death of this process, also by ``kill -9`` (``supervisor``). What does
not: a command may kill its supervisor and leave daemons, use all memory and processes, and do whatever the user
may.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from upturn.environments.sandbox.tail import Tail

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
GRACE_SECONDS = 10.0
"""For the supervisor to end all processes; longer than it tries. After that it is killed."""
PIPE_SECONDS = 1.0
"""For output after the end; only a process that escaped the supervisor holds a pipe open longer."""


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended, and the last of what it wrote."""

    exit_code: int | None
    """Negative = ended by that signal; None = it was ended at its time-out."""
    output: str
    errors: str
    is_cut: bool
    """True = it wrote more than the limit to one of them, and the beginning was dropped."""


@dataclass(frozen=True, slots=True)
class Call:
    """What ``run_command`` describes."""

    command: Sequence[str]
    environment: Mapping[str, str]
    input: bytes
    folder: Path
    output_limit: int
    timeout_seconds: float | None


@dataclass(frozen=True, slots=True)
class Launch:
    """How the supervisor starts a command."""

    passed: tuple[int, ...] = ()
    """Descriptors that the command gets besides the standard ones; nothing else keeps them."""
    user: int | None = None
    """None = as it is; the user and the group that it becomes, which only root can."""
    staged: tuple[str, ...] = ()
    """Paths that the command gets as ``supervisor.STAGE/NUMBER``."""


async def run_command(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    input: bytes,  # noqa: A002  the usual word for it
    folder: Path,
    output_limit: int,
    timeout_seconds: float | None = None,
) -> CommandEnd:
    """Runs a program without a shell; all processes that it started have ended when this returns or raises.

    ``environment``: all its variables. ``input``: on its standard input, which is closed then. ``folder``: where it
    starts. ``output_limit``: bytes kept of its standard output, and as many of its errors; writing beyond takes
    no memory. ``timeout_seconds``: None = no limit. Raises OSError where it cannot start.
    """
    return await run_supervised(
        Call(tuple(command), environment, input, folder, output_limit, timeout_seconds), Launch()
    )


async def run_supervised(call: Call, launch: Launch) -> CommandEnd:
    """As ``run_command``."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            transport, streams = await _started(call, launch, ours, theirs)
        try:
            _input_pipe(transport).write(call.input)
            _input_pipe(transport).write_eof()
            is_late = await waits_longer(streams.exited.wait(), call.timeout_seconds)
            report = b"" if is_late else _received(ours)
        finally:
            ours.shutdown(socket.SHUT_RDWR)  # acts also where a fork of this process holds a copy
            await _end(transport, streams)
    kind, _, number = report.decode().partition(" ")
    if kind == "error":
        raise start_error(call.command, int(number))
    ended_with = int(number) if kind else transport.get_returncode()
    return command_end(None if is_late else ended_with, streams.output, streams.errors)


def command_end(exit_code: int | None, output: Tail, errors: Tail) -> CommandEnd:
    """With the texts of both."""
    texts = output.text(), errors.text()
    return CommandEnd(exit_code, *texts, output.is_cut or errors.is_cut)


def start_error(command: Sequence[str], number: int) -> OSError:
    """The error of a command that cannot start; ``number``: its ``errno``."""
    return OSError(number, f"the command {command[0]!r} cannot start: {os.strerror(number)}")


def _arguments(control: int, launch: Launch) -> tuple[str, ...]:
    passed = ",".join(map(str, launch.passed))
    user = "" if launch.user is None else str(launch.user)
    started = (sys.executable, "-I", "-S", str(_SUPERVISOR), str(control), str(os.getpid()))
    return (*started, passed, user, str(len(launch.staged)), *launch.staged)


class _Streams(asyncio.SubprocessProtocol):
    """A process's output and errors."""

    def __init__(self, limit: int) -> None:
        self.output, self.errors = Tail(limit), Tail(limit)
        self.takes_input = True
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        """After the process and its pipes."""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        (self.output if fd == 1 else self.errors).add(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 0:
            self.takes_input = False

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.closed.set()


def _input_pipe(transport: asyncio.SubprocessTransport) -> asyncio.WriteTransport:
    pipe = transport.get_pipe_transport(0)
    assert isinstance(pipe, asyncio.WriteTransport)
    return pipe


async def waits_longer(event: Awaitable[object], seconds: float | None) -> bool:
    """Waits for the event; True = it did not come in that time."""
    try:
        async with asyncio.timeout(seconds):
            await event
    except TimeoutError:
        return True
    return False


def _received(control: socket.socket) -> bytes:
    """What the supervisor wrote before it exited; empty = it was killed."""
    control.setblocking(False)
    try:
        return control.recv(100)
    except BlockingIOError:
        return b""


async def _started(
    call: Call, launch: Launch, ours: socket.socket, theirs: socket.socket
) -> tuple[asyncio.SubprocessTransport, _Streams]:
    """The supervisor with the other end of the control socket.

    Where the caller is cancelled, it is ended when it has started: asyncio would kill it and leave its children.
    """
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: _Streams(call.output_limit),
            *_arguments(theirs.fileno(), launch),
            *call.command,
            env=call.environment,
            cwd=call.folder,
            pass_fds=(theirs.fileno(), *launch.passed),
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):  # of a start that has failed meanwhile
            transport, streams = await starting
            ours.shutdown(socket.SHUT_RDWR)
            await _end(transport, streams)
        raise


async def _end(transport: asyncio.SubprocessTransport, streams: _Streams) -> None:
    try:
        await waits_longer(streams.exited.wait(), GRACE_SECONDS)
        await waits_longer(streams.closed.wait(), PIPE_SECONDS)
    finally:
        if streams.takes_input:
            _input_pipe(transport).abort()
        transport.close()  # kills the supervisor where it still runs
        await streams.closed.wait()
