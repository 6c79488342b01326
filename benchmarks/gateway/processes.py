"""The processes of a measurement: upstream, gateway under test and load, each of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upturn.errors import MeasurementError

ROOT = Path(__file__).resolve().parent.parent.parent
_START_SECONDS = 300.0
"""A server that loads torch needs over a minute where other work keeps the cores busy."""
UPTURN_CONFIG = """
[loop]
train = []
[pool]
path = "{folder}/pool.db"
[[agents]]
name = "mock-a"
kind = "endpoint"
url = "http://127.0.0.1:{upstream}/v1"
model = "mock"
[[agents]]
name = "mock-b"
kind = "endpoint"
url = "http://127.0.0.1:{upstream}/v1"
model = "mock"
"""
LITELLM_CONFIG = """
model_list:
  - model_name: default
    litellm_params: {{model: openai/mock, api_base: "http://127.0.0.1:{upstream}/v1", api_key: none}}
"""


def free_port() -> int:
    """A port that nothing uses now."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Its endpoint for chat completions."""
        return f"http://127.0.0.1:{self.port}/v1/chat/completions"

    def resident_bytes(self) -> int:
        """Memory of the process, without children. Linux only."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def processor_seconds(self) -> float:
        """Processor time of the process, without its children. Linux only."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """Ends it at once, as ``kill -9``."""
        self.process.kill()
        self.process.wait()


@contextmanager
def _server(name: str, command: Sequence[str], port: int, folder: Path, **environment: str) -> Iterator[Server]:
    """Starts a server and waits until its port is open; it ends with the block."""
    with (folder / f"{name}.log").open("wb") as log:
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), **environment}
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=variables)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _is_open(port):
            if process.poll() is not None or time.monotonic() > deadline:
                said = (folder / f"{name}.log").read_text(errors="replace")[-1_000:]
                raise MeasurementError(f"{name} did not start: {said}")
            time.sleep(0.1)
        yield Server(port, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_open(port: int) -> bool:
    with socket.socket() as opened:
        opened.settimeout(0.2)
        return opened.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def mock_upstream(folder: Path, delay_ms: float = 0.0, parts: int = 20) -> Iterator[Server]:
    """The upstream, which answers after ``delay_ms``; its streams have so many parts."""
    with python_server(folder, "upstream", "benchmarks.gateway.mock_upstream", str(delay_ms), str(parts)) as server:
        yield server


@contextmanager
def python_server(folder: Path, name: str, module: str, *arguments: str) -> Iterator[Server]:
    """``python -m MODULE PORT ARGUMENTS…``."""
    port = free_port()
    with _server(name, [sys.executable, "-m", module, str(port), *arguments], port, folder) as server:
        yield server


@contextmanager
def upturn_gateway(folder: Path, upstream: Server, extra: str = "") -> Iterator[Server]:
    """``upturn up`` over a pool in the folder, with decisions and calls durable as always."""
    port = free_port()
    config = folder / "upturn.toml"
    config.write_text(UPTURN_CONFIG.format(folder=folder, upstream=upstream.port) + extra)
    command = [sys.executable, "-c", "from upturn.cli import main; main()", "up", "--config", str(config)]
    with _server("upturn", [*command, "--port", str(port)], port, folder) as server:
        yield server


@contextmanager
def litellm_gateway(folder: Path, upstream: Server, executable: Path) -> Iterator[Server]:
    """LiteLLM's proxy with one worker and without logging of calls."""
    port = free_port()
    config = folder / "litellm.yaml"
    config.write_text(LITELLM_CONFIG.format(upstream=upstream.port))
    command = [str(executable), "--config", str(config), "--port", str(port), "--num_workers", "1"]
    quiet = {
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "PYTHONPATH": "",
    }
    with _server("litellm", command, port, folder, **quiet) as server:
        yield server


@contextmanager
def compiled_gateway(folder: Path, upstream: Server, executable: Path) -> Iterator[Server]:
    """SGLang's router, which is written in Rust: it passes requests on, and stores nothing."""
    port = free_port()
    command = [str(executable), "launch", "--host", "127.0.0.1", "--port", str(port), "--policy", "random"]
    workers = ["--worker-urls", f"http://127.0.0.1:{upstream.port}", "--prometheus-port", str(free_port())]
    with _server("compiled", [*command, *workers], port, folder, PYTHONPATH="") as server:
        yield server


def run_load(server: Server, connections: int, requests: int, *options: str) -> dict[str, Any]:
    """The figures of a load from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.gateway.load", server.url, "default"]
    process = subprocess.run(
        [*command, str(connections), str(requests), *options],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
        check=False,
    )
    if process.returncode != 0:
        raise MeasurementError(f"the load failed: {process.stderr.decode(errors='replace')[-1_000:]}")
    figures: dict[str, Any] = json.loads(process.stdout)
    return figures
