"""Commands of programs: their files, found where the configuration's import paths are, and their sandbox."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from upturn.config import SandboxLimits
from upturn.environments.sandbox import Bubblewrap, CommandEnd, run_command, sandbox_environment


@dataclass(frozen=True, slots=True)
class ProgramCommand:
    """A command that starts in a folder of its own for each attempt."""

    command: tuple[str, ...]
    """With absolute paths of its files."""
    sandbox: SandboxLimits | None = None
    """None = it runs without a sandbox, with the environment variables of this process."""
    readable: tuple[Path, ...] = ()
    """Files and folders that it may read in the sandbox besides those of the command."""

    async def run(
        self,
        variables: Mapping[str, str],
        *,
        input: bytes,  # noqa: A002  as in run_command
        folder: Path,
        url: str,
        output_limit: int,
    ) -> CommandEnd:
        """Runs it in the folder. ``url``: of the attempt's server, which a sandbox reaches.

        Raises OSError where it cannot start, SandboxError where isolation cannot be shown.
        """
        if self.sandbox is None:
            run, environment = run_command, {**os.environ, **variables}
        else:
            files = (Path(part) for part in self.command if Path(part).is_absolute() and Path(part).exists())
            port = urlsplit(url).port
            assert port is not None
            sandbox = Bubblewrap(folder, (port,), (*files, *self.readable), self.sandbox)
            run, environment = sandbox.exec, {**sandbox_environment(folder), **variables}
        return await run(
            self.command, environment=environment, input=input, folder=folder, output_limit=output_limit
        )


def program_command(
    command: Sequence[str], sandbox: SandboxLimits | None = None, readable: Sequence[str] = ()
) -> ProgramCommand:
    """The command with paths that hold in any folder.

    A part that names a file of the current folder, or of one that import paths are searched in, such as that of the
    configuration file, means that file.
    """
    return ProgramCommand(
        (command[0] if os.sep not in command[0] else _located(command[0]), *map(_located, command[1:])),
        sandbox,
        tuple(Path(_located(path)).absolute() for path in readable),
    )


def _located(part: str) -> str:
    if not part or Path(part).is_absolute():
        return part
    for folder in ("", *sys.path):
        if (Path(folder) / part).exists() and part not in (".", ".."):
            return str((Path(folder) / part).absolute())
    return part
