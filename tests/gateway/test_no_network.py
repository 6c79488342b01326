"""``upturn up`` without a configuration attempts no connection: not at start, not in a call, not for a lookup."""

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.gateway.running import running

PROGRAM = """
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


def post(address: str, body: Any) -> Any:
    request = Request(address, json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_a_gateway_with_sockets_blocked_starts_answers_and_learns(tmp_path: Path) -> None:
    with running(tmp_path, PROGRAM) as address:
        messages = [{"role": "user", "content": "Move the mail from Ann to the folder archive."}]
        answer = post(f"{address}/v1/chat/completions", {"model": "default", "messages": messages})
        assert answer["choices"][0]["message"]["content"]
        value = {"metric": "success", "value": 1, "decision_id": answer["id"]}
        assert post(f"{address}/v1/feedback", value)["state"] == "stored"
        with urlopen(f"{address}/v1/router/state", timeout=60) as state:
            assert json.load(state)["families"]
    assert not (tmp_path / "attempts").exists(), (tmp_path / "attempts").read_text(encoding="utf-8")
