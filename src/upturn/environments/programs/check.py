"""Runs a command in a workspace to check it: with a time limit, bounded output and none of this process's secrets.

Not covered without a sandbox: what the command does to files outside of the workspace, and over the network.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from upturn.environments.sandbox import CommandEnd, Sandbox, run_command
from upturn.errors import WorldError

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR")
"""Variables of this process that a command gets; others may hold keys."""
_OUTPUT_LIMIT = 1_000_000
"""Bytes of standard output, and of standard error, that are kept."""

MakeSandbox: TypeAlias = Callable[[Path], Sandbox]
"""A sandbox over a workspace, such as the class ``Bubblewrap``."""


def run_check(
    workspace: Path,
    command: Sequence[str],
    *,
    input: str = "",  # noqa: A002  # as run_command names it
    seconds: float = 60.0,
    variables: Mapping[str, str] | None = None,
    sandbox: MakeSandbox | None = None,
) -> CommandEnd:
    """Runs the command with the workspace as its folder; all processes that it started have ended afterwards.

    ``input``: its standard input. ``seconds``: at the time-out the exit code is None. ``variables``: further
    environment variables. ``sandbox``: None = the command may do whatever this process may. Of long output the end
    is kept. May be called in a thread and beside a running event loop, which it blocks. Raises WorldError where the
    command cannot be started, SandboxError where the sandbox does not isolate.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {
        "HOME": str(workspace),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        **(variables or {}),
    }

    def run() -> CommandEnd:
        return asyncio.run(
            (run_command if sandbox is None else sandbox(workspace).exec)(
                command,
                environment=environment,
                input=input.encode(),
                folder=workspace,
                output_limit=_OUTPUT_LIMIT,
                timeout_seconds=seconds,
            )
        )

    try:
        with ThreadPoolExecutor(1) as thread:  # a thread may already have an event loop
            return thread.submit(run).result()
    except (OSError, ValueError) as exc:
        raise WorldError(f"the command {list(command)!r:.500} cannot be started: {exc}") from exc
