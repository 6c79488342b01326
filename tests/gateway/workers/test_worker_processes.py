"""``upturn up --workers 2`` as processes: calls, the end of a worker, the end of all."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.gateway.running import running_process
from tests.models.upstreams.raw_server import chat_answer
from upturn.pool import Pool

CONFIG = """
[loop]
train = []
[[agents]]
name = "ann"
kind = "endpoint"
url = "{url}"
model = "theirs"
"""


class _Vendor(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        content = json.dumps(chat_answer()).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        """Prints nothing."""


@contextmanager
def vendor() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Vendor) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


def call(address: str) -> str:
    """The id of an answered call, over a connection of its own."""
    body = json.dumps({"model": "ann", "messages": [{"role": "user", "content": "hi"}]}).encode()
    with urlopen(Request(f"{address}/v1/chat/completions", body), timeout=60) as answer:
        return str(json.load(answer)["id"])


def workers_of(process: subprocess.Popen[bytes]) -> set[int]:
    listed = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    return set(map(int, listed.stdout.split()))


def wait_until(is_true: Callable[[], bool]) -> None:
    """Returns when it is true; fails after a minute."""
    deadline = time.monotonic() + 60.0
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_printed(folder: Path, text: str) -> bool:
    """Whether the server has printed the text."""
    return text in (folder / "log").read_text(encoding="utf-8")


def call_until_answered(address: str) -> str:
    """The id of the first answered call; connections to a worker that has just ended may break."""
    deadline = time.monotonic() + 60.0
    while True:
        try:
            return call(address)
        except (URLError, ConnectionError):
            assert time.monotonic() < deadline


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    with vendor() as url:
        (tmp_path / "upturn.toml").write_text(CONFIG.format(url=url))
        with running_process(tmp_path, options=("--workers", "2")) as (address, process):
            wait_until(lambda: is_printed(tmp_path, f"gateway at {address}/v1"))  # both serve
            first = workers_of(process)
            assert len(first) == 2
            answered = [call(address) for _ in range(8)]
            for worker in first:
                os.kill(worker, signal.SIGKILL)
            wait_until(lambda: workers_of(process).isdisjoint(first))
            answered.append(call_until_answered(address))
            process.terminate()
            assert process.wait(timeout=60) == 0
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert "a worker has ended" in log
    with Pool.open(tmp_path / "upturn.db") as pool:
        assert {decision.id for decision in pool.decisions(tenant="default")} == set(answered)
