"""The five minutes of docs/gateway.md: its commands, run against a server without a configuration.

The server attempts no connection meanwhile: not at its start, not in a call, not for a lookup.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.gateway.running import running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gateway.md"
RUN_HERE = "<!-- not run: tests/gateway/test_walkthrough.py runs it -->"


def commands() -> list[str]:
    pattern = re.compile(re.escape(RUN_HERE) + r"\n```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [match[1] for match in pattern.finditer(PAGE.read_text(encoding="utf-8"))]


BLOCKED = """
import socket, sys
from pathlib import Path

def refuse(event, arguments):
    is_local = event == "socket.connect" and arguments[0].family == socket.AF_UNIX
    is_own = event == "socket.getaddrinfo" and arguments[0] == "127.0.0.1"  # the address to listen at
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        if not is_local and not is_own:
            with Path("attempts").open("a") as file:
                print(event, arguments, file=file)
            raise OSError("the network is blocked")

sys.addaudithook(refuse)
import uvicorn
config = uvicorn.Config
# uvloop connects past the hook
uvicorn.Config = lambda app, **options: config(app, **{**options, "loop": "asyncio"})
from upturn.cli import main
main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("up")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """The address of ``upturn up`` with blocked sockets in an empty folder; both tests use it in their order."""
    with running(folder, BLOCKED) as address:
        yield address


def candidates(state: dict[str, Any]) -> dict[str, Any]:
    return {entry["version"]: entry for entry in state["families"][0]["candidates"]}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_call_and_a_feedback_change_the_posterior(server: str, tmp_path: Path) -> None:
    start, call, feedback, state = commands()
    assert start.strip() == ".venv/bin/upturn up"
    steps = (
        call.replace("curl -s -D", "curl -s -o answer.json -D"),
        f"{state.strip()} > before.json",
        feedback,
        f"{state.strip()} > after.json",
    )
    script = "\n".join(steps).replace("http://127.0.0.1:8000", server)
    done = subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    headers = dict(re.findall(r"^(x-upturn-[\w-]+): (\S+)", done.stdout, re.MULTILINE))
    answer, before, after = (
        json.loads((tmp_path / name).read_text()) for name in ("answer.json", "before.json", "after.json")
    )
    version = headers["x-upturn-agent-version"]
    assert answer["id"] == headers["x-upturn-decision"]
    assert float(headers["x-upturn-propensity"]) == 0.5
    assert '"state":"stored"' in done.stdout
    other = next(name for name in candidates(after) if name != version)
    assert candidates(before)[version]["belief"]["mean"] == 0.5
    assert candidates(after)[version]["belief"]["mean"] == pytest.approx(0.77, abs=0.005)
    assert candidates(after)[other]["belief"]["mean"] == pytest.approx(0.69, abs=0.005)
    assert candidates(after)[version]["probability"] == pytest.approx(0.61, abs=0.005)


def post(address: str, body: Any) -> Any:
    request = Request(address, json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_a_gateway_with_sockets_blocked_starts_answers_and_learns(server: str, folder: Path) -> None:
    messages = [{"role": "user", "content": "Move the mail from Ann to the folder archive."}]
    answer = post(f"{server}/v1/chat/completions", {"model": "default", "messages": messages})
    assert answer["choices"][0]["message"]["content"]
    value = {"metric": "success", "value": 1, "decision_id": answer["id"]}
    assert post(f"{server}/v1/feedback", value)["state"] == "stored"
    with urlopen(f"{server}/v1/router/state", timeout=60) as state:
        assert json.load(state)["families"]
    assert not (folder / "attempts").exists(), (folder / "attempts").read_text(encoding="utf-8")
