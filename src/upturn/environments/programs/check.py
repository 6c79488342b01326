"""Runs a command in a workspace to check it: with a time limit, bounded output and none of this process's secrets.

Covered: the command and the processes of its session end with it; it gets a small environment of its own. Not
covered without a sandbox: what it does to files outside of the workspace, and processes that leave its session.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from upturn.errors import WorldError
from upturn.records import record

_POLL_SECONDS = 0.02
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
"""Variables of this process that a command gets; others may hold keys."""


@record
class CheckResult:
    """The end of a command."""

    exit_code: int | None
    """None = the time limit ended it. Negative = minus the signal that ended it."""
    output: str
    errors: str
    is_cut: bool
    """Whether there was more output than was kept."""


def run_check(
    workspace: Path,
    command: Sequence[str],
    *,
    input: str = "",  # noqa: A002  # as subprocess.run names it
    seconds: float = 60.0,
    output_limit: int = 1_000_000,
    variables: Mapping[str, str] | None = None,
) -> CheckResult:
    """Runs the command with the workspace as its folder, and returns how it ended.

    ``input``: its standard input. ``output_limit``: bytes of standard output, and of standard error, that are kept.
    ``variables``: further environment variables. Raises WorldError where the command cannot be started.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {
        "HOME": str(workspace),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        **(variables or {}),
    }
    with TemporaryFile() as source:
        source.write(input.encode())
        source.seek(0)
        try:
            process = subprocess.Popen(
                list(command),
                cwd=workspace,
                env=environment,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            raise WorldError(f"the command {list(command)!r:.500} cannot be started: {exc}") from exc
    with process:
        streams = [_Stream(pipe, output_limit) for pipe in (process.stdout, process.stderr) if pipe is not None]
        try:
            has_ended = _wait(process, streams, seconds)
        finally:
            with suppress(ProcessLookupError):  # also what it left behind
                os.killpg(process.pid, signal.SIGKILL)
        for stream in streams:
            stream.read()
        exit_code = process.wait()
    output, errors = (stream.text() for stream in streams)
    return CheckResult(exit_code if has_ended else None, output, errors, any(stream.is_cut for stream in streams))


class _Stream:
    """One pipe of a process, read without waiting."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        self.pipe, self._limit = pipe, limit
        self._kept = bytearray()
        self.is_cut = False
        os.set_blocking(pipe.fileno(), False)

    def read(self) -> bool:
        """Reads what is there; False at the end of the stream."""
        while True:
            try:
                chunk = os.read(self.pipe.fileno(), 65_536)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            free = self._limit - len(self._kept)
            self._kept += chunk[:free]
            if len(chunk) > free:
                self.is_cut = True
                return True  # a process that writes for ever is stopped by its time limit

    def text(self) -> str:
        return self._kept.decode(errors="replace")


def _wait(process: subprocess.Popen[bytes], streams: Sequence[_Stream], seconds: float) -> bool:
    """Reads both streams until the process ends; False where the time is over before."""
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.pipe, selectors.EVENT_READ, stream)
        while process.poll() is None:
            if time.monotonic() >= end:
                return False
            if not selector.get_map():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, end - time.monotonic()))
                continue
            for key, _ in selector.select(_POLL_SECONDS):
                if not key.data.read():
                    selector.unregister(key.fileobj)
    return True
