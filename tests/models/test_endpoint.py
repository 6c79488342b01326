import asyncio
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from upturn.agents import EndpointAgent, Recorder, Reply
from upturn.dialects import Message, ModelAnswer, ModelRequest, Sampling, Text, TokenUsage, ToolDefinition
from upturn.errors import ModelError
from upturn.models import ChatEndpoint, GenerationRequest, RetryPolicy, ToolsRefusedError
from upturn.records import Action, ModelUsage, Observation, Turn

ANSWER = {
    "model": "m-2026",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Let me see.\nmail.list folder=in"}}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
}
Script = Sequence[tuple[int, Any, dict[str, str]]]


class Server:
    """Sends the script's responses in order and records the requests."""

    def __init__(self, script: Script) -> None:
        self.script = list(script)
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.url = ""


@contextmanager
def serving(*script: tuple[int, Any, dict[str, str]]) -> Iterator[Server]:
    state = Server(script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            state.requests.append((self.path, dict(self.headers), json.loads(body)))
            status, answer, headers = state.script.pop(0)
            content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


HI = ModelRequest("", (Message("user", (Text("Hi"),)),), sampling=Sampling(9, 0.5))


def complete(
    url: str, waits: list[float] | None = None, *, api_key: str = "", request: ModelRequest = HI, **policy: Any
) -> ModelAnswer:
    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    endpoint = ChatEndpoint(url, "m", api_key=api_key, retry=RetryPolicy(**policy, sleep=sleep))
    return asyncio.run(endpoint.answer(request))


def test_a_chat_is_sent_and_its_answer_parsed() -> None:
    with serving((200, ANSWER, {})) as server:
        completion = complete(f"{server.url}/", api_key="secret")
    text = Text("Let me see.\nmail.list folder=in")
    assert completion == ModelAnswer("", "m-2026", (text,), "stop", TokenUsage(11, 7))
    ((path, headers, body),) = server.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer secret"
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.5,
        "max_tokens": 9,
    }


def test_no_key_sends_no_authorization_and_missing_counts_are_zero() -> None:
    with serving((200, {"choices": [{"message": {"content": None}}]}, {})) as server:
        assert complete(server.url) == ModelAnswer("", "", (), "stop", TokenUsage())
    assert "authorization" not in server.requests[0][1]


def test_transient_errors_are_retried_with_growing_waits() -> None:
    waits: list[float] = []
    with serving(
        (503, "busy", {}), (429, "slow down", {"retry-after": "7"}), (500, "", {}), (200, ANSWER, {})
    ) as server:
        assert complete(server.url, waits, retries=3).usage.input == 11
    assert waits == [0.5, 7.0, 2.0]


def test_the_last_failure_is_named_without_the_key() -> None:
    with serving((503, "busy", {}), (503, "still busy", {})) as server, pytest.raises(ModelError) as caught:
        complete(server.url, retries=1, api_key="secret")
    assert str(caught.value) == f"{server.url}/chat/completions failed 2 times, at last with HTTP 503: still busy"


def test_client_errors_are_not_retried() -> None:
    with (
        serving((401, "bad key", {})) as server,
        pytest.raises(ModelError, match="refused model 'm': HTTP 401: bad key"),
    ):
        complete(server.url, retries=5)
    assert len(server.requests) == 1


@pytest.mark.parametrize("answer", ["<html>", {"choices": []}, {"choices": [{"text": "old style"}]}])
def test_a_malformed_answer_is_an_error_that_names_the_endpoint(answer: Any) -> None:
    with serving((200, answer, {})) as server, pytest.raises(ModelError, match="did not answer as a chat endpoint"):
        complete(server.url)


def test_connection_errors_and_timeouts_are_model_errors() -> None:
    with socket.socket() as quiet:
        quiet.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{quiet.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match="failed 2 times, at last with ConnectError"):
            complete(url, retries=1)
        quiet.listen()
        with pytest.raises(ModelError, match=r"failed 1 times, at last with no whole answer within 0\.05 s"):
            complete(url, retries=0, timeout_seconds=0.05)


def test_an_invalid_url_is_refused() -> None:
    with pytest.raises(ModelError, match="starts with http:// or https://, got 'localhost:80'"):
        ChatEndpoint("localhost:80", "m")


def test_an_endpoint_agent_parses_the_last_line_that_is_an_action() -> None:
    turns = [Turn(Observation("Do it."), "mail.open id=1", Action("mail", "open", {"id": "1"}))]

    async def act(url: str) -> Reply:
        agent = EndpointAgent(ChatEndpoint(url, "m"), prompt="You have mail.", temperature=0.0, max_tokens=5)
        session = Recorder(None, GenerationRequest((), 0, (), 1.0, "s", (0, 0), 0))
        return await agent.act(turns, Observation("no mail 1", code="not_found"), session)

    with serving((200, ANSWER, {})) as server:
        reply = asyncio.run(act(server.url))
    assert reply == Reply(
        "Let me see.\nmail.list folder=in",
        Action("mail", "list", {"folder": "in"}, "Let me see."),
        ModelUsage(11, 7),
    )
    messages = server.requests[0][2]["messages"]
    assert messages[0]["role"] == "system"
    assert messages[0]["content"].startswith("You have mail.\n\nYou act by writing an action")
    assert [(message["role"], message["content"]) for message in messages[1:]] == [
        ("user", "Do it."),
        ("assistant", "mail.open id=1"),
        ("user", "error not_found: no mail 1"),
    ]


@pytest.mark.parametrize("count", [-1, 10**30, 1.5, "many"])
def test_token_counts_that_overflow_a_record_are_refused(count: Any) -> None:
    answer = {**ANSWER, "usage": {"prompt_tokens": count}}
    with serving((200, answer, {})) as server, pytest.raises(ModelError, match="did not answer as a chat endpoint"):
        complete(server.url)


def test_a_call_that_waits_is_trouble_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 3 s, at 12 s and after the end, by the clock of the test."""
    now = [0.0]
    monkeypatch.setattr("upturn.models.endpoint.monotonic", lambda: now[0])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        endpoint = ChatEndpoint(url, "m", retry=RetryPolicy(90, 0))

        async def wait() -> list[str]:
            calls = [asyncio.ensure_future(endpoint.answer(HI)) for _ in range(2)]
            await asyncio.sleep(0)  # the calls begin
            seen = []
            for now[0] in (0.0, 3.0, 12.0):
                seen.append(endpoint.trouble(10))
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            return [*seen, endpoint.trouble(10)]

        none, soon, late, after = asyncio.run(wait())
    assert (none, soon, after) == ("", "", "")
    assert late == (
        f"{url}/chat/completions has not answered for 12 s, 2 calls wait (90 s a try, 0 further tries: "
        "agents.timeout_seconds, agents.retries)"
    )


def test_a_failed_try_is_trouble_at_once_and_an_answer_ends_it() -> None:
    seen: list[str] = []

    async def sleep(seconds: float) -> None:
        seen.append(endpoint.trouble(10))

    with serving((503, "busy", {}), (200, ANSWER, {})) as server:
        endpoint = ChatEndpoint(server.url, "m", retry=RetryPolicy(sleep=sleep))
        asyncio.run(endpoint.answer(HI))
    assert len(seen) == 1
    assert seen[0].endswith("agents.retries); the last failed try: HTTP 503: busy")
    assert endpoint.trouble(0) == ""


TOOLS = ModelRequest("", HI.messages, (ToolDefinition("mail__list"),))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, "this model does not support tools"),
        (404, "No endpoints that support Tool use"),
        (500, "tools: --jinja"),
    ],
)
def test_a_server_that_refuses_tools_is_named(status: int, body: str) -> None:
    with serving(*[(status, body, {})] * 2) as server, pytest.raises(ToolsRefusedError, match=f"HTTP {status}"):
        complete(server.url, request=TOOLS, retries=1)


@pytest.mark.parametrize(("request_", "body"), [(HI, "no tools"), (TOOLS, "context too long")])
def test_other_refusals_are_not_of_tools(request_: ModelRequest, body: str) -> None:
    with serving((400, body, {})) as server, pytest.raises(ModelError, match="refused model 'm'") as caught:
        complete(server.url, request=request_)
    assert not isinstance(caught.value, ToolsRefusedError)
