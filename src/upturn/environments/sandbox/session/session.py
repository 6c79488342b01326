"""The host's side of a sandbox that stays open."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from upturn.environments.sandbox.bubblewrap import (
    Bubblewrap,
    give_away,
    launched,
    sandbox_environment,
    start_failure,
)
from upturn.environments.sandbox.command import Call, CommandEnd, supervisor_command
from upturn.environments.sandbox.enter import ENTERED
from upturn.environments.sandbox.session.worker import LENGTH_BYTES
from upturn.errors import SandboxError

_WORKER = Path(__file__).with_name("worker.py")
_WORKER_INSIDE = "/run/upturn/worker.py"
_VARIABLES = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
_START_SECONDS = 60.0
_GRACE_SECONDS = 10.0
"""For an answer after the time of a request is over."""
_LARGEST = 2**26
"""Bytes of an answer."""


class SandboxSession:
    """One sandbox over one workspace, for one rollout. Not for several threads at the same time.

    Everything that a request started has ended when its answer is there. A program can end the process inside: its
    request then ends with -9, and the next one starts a new sandbox. ``close`` ends everything; so does the end of
    this process.
    """

    def __init__(self, sandbox: Bubblewrap) -> None:
        self._sandbox = sandbox
        self._open: ExitStack | None = None
        self._channel: socket.socket | None = None

    def exec(
        self,
        command: Sequence[str],
        *,
        input: str = "",  # noqa: A002
        seconds: float,
        output_limit: int,
    ) -> CommandEnd:
        """Runs a program in the workspace. Raises SandboxError where isolation cannot be shown."""
        return self._ask({"command": list(command)}, input, seconds, output_limit)

    def run_python(self, code: str, *, input: str = "", seconds: float, output_limit: int) -> CommandEnd:  # noqa: A002
        """Runs Python source in the workspace, in an interpreter that has started already and has no packages.

        Errors as ``exec``.
        """
        return self._ask({"code": code}, input, seconds, output_limit)

    def close(self) -> None:
        """Ends every process of the sandbox; the next request would start another one."""
        if self._open is not None:
            self._open.close()
        self._open = self._channel = None

    def _ask(self, what: Mapping[str, object], input: str, seconds: float, output_limit: int) -> CommandEnd:  # noqa: A002
        request = json.dumps({**what, "input": input, "seconds": seconds, "output_limit": output_limit}).encode()
        channel = self._started()
        try:
            channel.settimeout(seconds + _GRACE_SECONDS)
            channel.sendall(len(request).to_bytes(LENGTH_BYTES, "big") + request)
            length = int.from_bytes(_exactly(channel, LENGTH_BYTES), "big")
            if length > _LARGEST:
                raise ConnectionError
            answer = json.loads(_exactly(channel, length))
            output, errors = answer["texts"]
            return CommandEnd(answer["exit"], str(output), str(errors), bool(answer["is_cut"]))
        except TimeoutError:
            self.close()
            return CommandEnd(None, "", "", False)
        except (OSError, ValueError, KeyError, TypeError):  # a program has ended the worker, or wrote in its place
            self.close()
            return CommandEnd(-9, "", "the program ended the process that ran it\n", False)
        except BaseException:
            self.close()
            raise

    def _started(self) -> socket.socket:
        if self._channel is None:
            with ThreadPoolExecutor(1) as thread:  # this thread may have an event loop
                thread.submit(lambda: asyncio.run(self._sandbox.check())).result()
            with ExitStack() as stack:
                channel = stack.enter_context(_session(self._sandbox))
                self._open = stack.pop_all()
            self._channel = channel
        if os.getuid() == 0:  # what this process has written since must be the program's to change
            give_away(self._sandbox.workspace)
        return self._channel


@contextmanager
def _session(sandbox: Bubblewrap) -> Iterator[socket.socket]:
    """The socket of a worker in a new sandbox, which ends with the block. Raises SandboxError."""
    workspace = sandbox.checked_workspace()
    if os.getuid() == 0:
        give_away(workspace)
    ours, theirs = socket.socketpair()
    entering, entered = socket.socketpair()
    control, supervised = socket.socketpair()
    with ours, control, entering, tempfile.TemporaryFile() as errors:
        with theirs, entered, supervised:
            python = (os.path.realpath(sys.executable), "-P", "-s", "-S", _WORKER_INSIDE, str(theirs.fileno()))
            variables = {**sandbox_environment(workspace), **_VARIABLES}
            call = Call(python, variables, b"", workspace, 0, None)
            files = {_WORKER_INSIDE: _WORKER.read_bytes()}
            with launched(sandbox, workspace, call, entered.fileno(), files=files, passed=(theirs.fileno(),)) as (
                inside,
                launch,
            ):
                process = subprocess.Popen(
                    (*supervisor_command(supervised.fileno(), launch), *inside.command),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env=inside.environment,
                    cwd=inside.folder,
                    pass_fds=(supervised.fileno(), *launch.passed),
                    start_new_session=True,
                )
        try:
            entering.settimeout(_START_SECONDS)
            if entering.recv(len(ENTERED)) != ENTERED:
                process.wait()
                errors.seek(0)
                said = errors.read().decode("utf-8", "replace").strip()[-500:]
                raise SandboxError(start_failure(f"bubblewrap ended: {said}"))
            yield ours
        finally:
            control.close()  # the supervisor ends all processes then
            try:
                process.wait(_GRACE_SECONDS)
            finally:
                process.kill()
                process.wait()


def _exactly(channel: socket.socket, count: int) -> bytes:
    parts, missing = [], count
    while missing:
        part = channel.recv(min(missing, 65_536))
        if not part:
            raise ConnectionError
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
