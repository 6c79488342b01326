"""The contract of sandboxes, after inspect_ai's ``SandboxEnvironment``: ``exec``, ``read_file``, ``write_file``.

Another backend, such as containers, implements the same three methods for one workspace.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from upturn.environments.sandbox.command import CommandEnd


class Sandbox(Protocol):
    """Runs commands that nobody trusts over one workspace, a folder of the host."""

    async def exec(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        input: bytes,  # noqa: A002
        folder: Path,
        output_limit: int,
        timeout_seconds: float | None = None,
    ) -> CommandEnd:
        """As ``run_command``, which it replaces; ``folder`` is the workspace or lies in it.

        Raises SandboxError where isolation cannot be shown: the command has not run then.
        """

    async def read_file(self, path: str) -> bytes:
        """Content of a file of the workspace; ``path`` is relative to it.

        Raises OSError, also for a path that leads out of the workspace or through a symbolic link.
        """

    async def write_file(self, path: str, contents: bytes) -> None:
        """Replaces or makes a file of the workspace, with its folders; errors as ``read_file``."""
