"""The control socket of a supervisor: what it says at the end, and how it is told to end everything."""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Sequence
from contextlib import suppress

from upturn.environments.sandbox.pipe import Pipe

_GRACE_SECONDS = 10.0
"""For the supervisor to end all processes; longer than it tries."""
_PIPE_SECONDS = 1.0
"""For output after the end; only a process that escaped the supervisor holds a pipe open longer."""


async def last_words(control: socket.socket, pipes: Sequence[Pipe], seconds: float | None) -> bytes | None:
    """What the supervisor says, as ``supervise`` describes; empty = it was killed, None = nothing in that time.

    When this returns or raises, all processes have ended. The pipes are read meanwhile.
    """
    control.setblocking(False)
    try:
        for pipe in pipes:
            await pipe.read()
        async with asyncio.timeout(seconds):
            return await _received(control)
    except TimeoutError:
        return None
    finally:
        control.shutdown(socket.SHUT_WR)  # reaches the supervisor also where a fork of this process holds a copy
        await _wait_at_most(_GRACE_SECONDS, _closed(control))
        await _wait_at_most(_PIPE_SECONDS, asyncio.gather(*(pipe.closed.wait() for pipe in pipes)))


def exit_code(said: bytes | None) -> int | None:
    """Of the command; -9 where the supervisor, and so the command, was killed; None where it was too late."""
    if said is None:
        return None
    kind, _, number = said.decode().partition(" ")
    return int(number) if kind == "exit" else -signal.SIGKILL


async def _received(control: socket.socket) -> bytes:
    try:
        return await asyncio.get_running_loop().sock_recv(control, 100)
    except ConnectionError:  # nobody has received the other end
        return b""


async def _closed(control: socket.socket) -> None:
    while await _received(control):
        pass


async def _wait_at_most(seconds: float, event: Awaitable[object]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event
