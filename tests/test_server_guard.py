"""A server of the tests ends with the process that started it."""

import subprocess
import sys
import time
from pathlib import Path

# Processes that a shell started in the background ignore the signal, and their children as well; a server does not.
SERVER = """
import signal, time
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
print("running", flush=True)
time.sleep(600)
"""
STARTER = """
import sys, time
from pathlib import Path
from tests.server_guard import ServerGuard
guard = ServerGuard(Path(sys.argv[1]))
print("running", flush=True)
time.sleep(600)
"""


def running(*arguments: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen([sys.executable, "-c", *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


def test_a_server_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    (folder / "data").mkdir(parents=True)
    with running(SERVER) as server, running(STARTER, str(folder)) as starter:
        try:
            (folder / "data" / "postmaster.pid").write_text(f"{server.pid}\n{folder / 'data'}\n")
            assert server.poll() is None
            starter.kill()
            server.wait(timeout=60)
            deadline = time.monotonic() + 60
            while folder.exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            starter.kill()
            server.kill()
