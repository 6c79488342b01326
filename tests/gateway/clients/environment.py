"""The environment with the packages of clients, ``.venv-clients``.

Clients run there as programs of their own, unmodified; the gateway runs with the interpreter of the tests.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = Path(os.environ.get("UPTURN_CLIENTS", ROOT / ".venv-clients"))
PROGRAMS = Path(__file__).parent / "programs"

needs_clients = pytest.mark.skipif(
    not (FOLDER / "bin" / "python").exists(),
    reason="the environment of the clients is not installed: make test-reach",
)


def run_client(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    """Runs a command of the environment; returns its output, and fails with it unless it exits with 0."""
    first, *rest = command
    done = subprocess.run(
        [FOLDER / "bin" / first, *rest],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "PYTHONPATH": "", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
