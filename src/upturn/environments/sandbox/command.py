"""A command in processes of its own, which have all ended when its call returns.

Without a sandbox. What holds then: the command, its children and its daemons end with the call, with the caller's
cancellation, at the time-out and with the death of this process, also by ``kill -9`` (``supervisor``). What does
not: a command may kill its supervisor and leave daemons, use all memory and processes, and do whatever the user
may.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from upturn.environments.sandbox.control import exit_code, last_words
from upturn.environments.sandbox.nameless_file import nameless_file
from upturn.environments.sandbox.pipe import Pipe
from upturn.environments.sandbox.tail import Tail

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_ERROR = b"error "


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
    control, theirs = socket.socketpair()
    with control, Pipe(call.output_limit) as output, Pipe(call.output_limit) as errors:
        with theirs, nameless_file(call.input) as stdin:
            process = subprocess.Popen(
                (*supervisor_command(theirs.fileno(), launch), *call.command),
                stdin=stdin,
                stdout=output.writing,
                stderr=errors.writing,
                env=call.environment,
                cwd=call.folder,
                pass_fds=(theirs.fileno(), *launch.passed),
                start_new_session=True,
            )
        try:
            said = await last_words(control, (output, errors), call.timeout_seconds)
        finally:
            process.kill()  # where it could not end everything in time
            process.wait()
    if said is not None and said.startswith(_ERROR):
        raise start_error(call.command, int(said.removeprefix(_ERROR)))
    return command_end(exit_code(said), output.tail, errors.tail)


def command_end(exit_code: int | None, output: Tail, errors: Tail) -> CommandEnd:
    """With the texts of both."""
    texts = output.text(), errors.text()
    return CommandEnd(exit_code, *texts, output.is_cut or errors.is_cut)


def start_error(command: Sequence[str], number: int) -> OSError:
    """The error of a command that cannot start; ``number``: its ``errno``."""
    return OSError(number, f"the command {command[0]!r} cannot start: {os.strerror(number)}")


def supervisor_command(control: int, launch: Launch) -> tuple[str, ...]:
    """The supervisor's command line, which the command follows; ``control``: its end of the control socket."""
    passed = ",".join(map(str, launch.passed))
    user = "" if launch.user is None else str(launch.user)
    started = (sys.executable, "-I", "-S", str(_SUPERVISOR), str(control), str(os.getpid()))
    return (*started, passed, user, str(len(launch.staged)), *launch.staged)
