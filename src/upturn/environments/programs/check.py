"""Runs a command in a workspace to check it: with a time limit, bounded output and none of this process's secrets.

Not covered without a sandbox: what the command does to files outside of the workspace.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from upturn.environments.sandbox import CommandEnd, run_command
from upturn.errors import WorldError

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR")
"""Variables of this process that a command gets; others may hold keys."""


def run_check(
    workspace: Path,
    command: Sequence[str],
    *,
    input: str = "",  # noqa: A002  # as run_command names it
    seconds: float = 60.0,
    output_limit: int = 1_000_000,
    variables: Mapping[str, str] | None = None,
) -> CommandEnd:
    """Runs the command with the workspace as its folder; all processes that it started have ended afterwards.

    ``input``: its standard input. ``seconds``: at the time-out the exit code is None. ``output_limit``: bytes of
    standard output, and of standard error, that are kept, the last ones. ``variables``: further environment
    variables. May be called in a thread and beside a running event loop, which it blocks. Raises WorldError where
    the command cannot be started.
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
            run_command(
                command,
                environment=environment,
                input=input.encode(),
                folder=workspace,
                output_limit=output_limit,
                timeout_seconds=seconds,
            )
        )

    try:
        with ThreadPoolExecutor(1) as thread:  # a thread may already have an event loop
            return thread.submit(run).result()
    except (OSError, ValueError) as exc:
        raise WorldError(f"the command {list(command)!r:.500} cannot be started: {exc}") from exc
