"""A running ``upturn up``."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import upturn

PROGRAM = "from upturn.cli import main; main()"
START_SECONDS = 300.0


@contextmanager
def running(folder: Path, program: str = PROGRAM) -> Iterator[str]:
    """The address of ``upturn up`` in a folder, whose modules it can import.

    ``program``: Python that runs the command line.
    """
    with running_process(folder, program) as (address, _):
        yield address


@contextmanager
def running_process(
    folder: Path, program: str = PROGRAM, options: Sequence[str] = ()
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address and the process of ``upturn up`` with further options; see ``running``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", program, "up", "--port", str(port), *options]
    sources = Path(upturn.__file__).parents[1]  # a relative path in PYTHONPATH means another folder there
    paths = os.pathsep.join([str(folder), str(sources), os.environ.get("PYTHONPATH", "")])
    with (folder / "log").open("wb") as log:
        variables = {**os.environ, "PYTHONPATH": paths}
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=variables)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _is_ready(port):
            assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(timeout=60)


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
