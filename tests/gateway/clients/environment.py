"""The environment with the packages of clients, ``.venv-clients``, and the servers that they call.

Clients run there as programs of their own, unmodified; the gateway runs with the interpreter of the tests.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = Path(os.environ.get("UPTURN_CLIENTS", ROOT / ".venv-clients"))
PROGRAMS = Path(__file__).parent / "programs"
START_SECONDS = 60.0

needs_clients = pytest.mark.skipif(
    not (FOLDER / "bin" / "python").exists(),
    reason="the environment of the clients is not installed: make test-reach",
)


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


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


@contextmanager
def gateway(folder: Path, config: str) -> Iterator[str]:
    """The address of ``upturn up`` with this configuration; modules in ``folder`` can be imported."""
    (folder / "upturn.toml").write_text(config, encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-c", "from upturn.cli import main; main()", "up", "--port", str(port)]
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": paths}
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _is_ready(port):
            assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
