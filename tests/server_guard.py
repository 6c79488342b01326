"""Ends a server of the tests with the process that started it, however that one ends."""

import subprocess
from pathlib import Path

_SCRIPT = """
read -r _
if server=$(head -n 1 "$0/data/postmaster.pid" 2> /dev/null); then
  kill -QUIT "$server"
  while kill -0 "$server" 2> /dev/null; do sleep 0.05; done
fi
rm -rf "$0"
"""
"""Waits for a line or the end of its input, then ends PostgreSQL at once and removes its folder."""


class ServerGuard:
    """A process that ends the PostgreSQL server of a folder and removes the folder.

    It does so when ``end`` is called, and when this process has ended, also after ``kill -9``.
    """

    def __init__(self, folder: Path) -> None:
        command = ["sh", "-c", _SCRIPT, str(folder)]
        # In a session of its own, so that an interrupt from the keyboard does not end it.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def end(self) -> None:
        """Returns when the server has ended and its folder is removed."""
        self._process.communicate(b"end\n", timeout=60)
