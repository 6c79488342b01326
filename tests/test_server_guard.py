"""A server of the tests ends with the process that started it."""

import subprocess
import sys
import time
from pathlib import Path

STARTER = """
import sys, time
from pathlib import Path
from tests.server_guard import ServerGuard
guard = ServerGuard(Path(sys.argv[1]))
print("started", flush=True)
time.sleep(600)
"""


def test_a_server_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    (folder / "data").mkdir(parents=True)
    with (
        subprocess.Popen(["sleep", "600"]) as server,
        subprocess.Popen(
            [sys.executable, "-c", STARTER, str(folder)], stdout=subprocess.PIPE, text=True
        ) as starter,
    ):
        (folder / "data" / "postmaster.pid").write_text(f"{server.pid}\n{folder / 'data'}\n")
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
        assert server.poll() is None
        starter.kill()
        server.wait(timeout=60)
    deadline = time.monotonic() + 60
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
