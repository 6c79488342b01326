"""Agents' servers that do everything wrong, as clients of each dialect see them over HTTP.

Every client gets an error in its dialect, with a code and what to do; nothing is stored as answered; and no text
for clients has the server's address or key.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.models.upstreams import faults
from tests.models.upstreams.raw_server import SSE_HEAD, Behaviour, Visit, chat_chunk, raw_server, upstream_at
from upturn.arbiter import AgentRegistry, DiscountedThompson, Router, RunKey
from upturn.config import AccessConfig, GatewayConfig, TimeoutConfig, UpstreamConfig
from upturn.gateway import Observer, Parts, build_app
from upturn.gateway.access import open_guard
from upturn.gateway.observation import GatewayMetrics
from upturn.loop.online import OnlineService, RouteTable
from upturn.pool import Pool
from upturn.pool.calls import calls_of_episode
from upturn.records import AgentVersion

KEY = "sk-of-the-vendor"
CALM = TimeoutConfig(connect=60.0, first_token=60.0, between_tokens=60.0, whole=120.0)
"""Never reached on a busy machine."""
CURES = ("try again", "send the request again")
HI = [{"role": "user", "content": "hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "ann", "messages": HI},
    "/v1/messages": {"model": "ann", "max_tokens": 9, "messages": HI},
    "/v1/responses": {"model": "ann", "input": "hi"},
}


async def leaky(visit: Visit) -> None:
    """Repeats what it was sent."""
    said = f"POST http://{visit.headers['host']}/v1 with {visit.headers['authorization']} failed"
    await visit.json({"error": {"message": said}}, "500 Internal Server Error")


async def leaky_midway(visit: Visit) -> None:
    said = f"POST http://{visit.headers['host']}/v1 with {visit.headers['authorization']} failed"
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("Hel"))
    await visit.part(b"data: " + json.dumps({"error": {"message": said, "code": "boom"}}).encode() + b"\n\n")
    await visit.part(b"")


async def drips(visit: Visit) -> None:
    """A byte at a time."""
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("Hel"))
    while True:
        await visit.part(b":")
        await asyncio.sleep(0.01)


async def floods(visit: Visit) -> None:
    """100 MB."""
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("Hel"))
    for _ in range(1_600):
        await visit.part(b":" + b"x" * 65_000 + b"\n\n")


@asynccontextmanager
async def client_of(
    pool: Pool, behaviour: Behaviour, settings: UpstreamConfig
) -> AsyncIterator[tuple[httpx2.AsyncClient, str]]:
    """A client of a gateway whose only agent is a server with this behaviour, and the server's host and port."""
    registry = AgentRegistry()
    registry.add(AgentVersion("ann", "1", "endpoint", model="http://unused"))
    router = Router(registry, DiscountedThompson(), RunKey("test", 0))
    guard = open_guard(AccessConfig(), pool, host="127.0.0.1", tenant="default")
    async with raw_server(behaviour) as server, upstream_at(server, settings, KEY) as upstream:
        service = OnlineService(pool, router, RouteTable(GatewayConfig(), registry), lambda _: upstream)
        app = build_app(Parts(service, guard, Observer(GatewayMetrics(), None), GatewayConfig()))
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client, server.url.removeprefix("http://").removesuffix("/v1")


def check_error(path: str, body: Any, code: str) -> None:
    """Asserts that it is an error of the dialect that says what to do."""
    error = body["error"]
    assert any(cure in error["message"] for cure in CURES), error
    if path == "/v1/messages":
        assert (body["type"], error["type"]) == ("error", "api_error")
    else:
        assert error["code"] == code, error


def check_end_of_stream(path: str, content: str, code: str) -> None:
    """Asserts that a stream ends with an error of the dialect, and not as a complete answer."""
    last = content.strip().split("\n\n")[-1]
    event = json.loads(last.partition("data: ")[2])
    if path == "/v1/responses":
        assert event["type"] == "response.failed"
        assert event["response"]["status"] == "failed"
        assert event["response"]["error"]["code"] == "server_error"
        message = event["response"]["error"]["message"]
    elif path == "/v1/messages":
        assert (event["type"], event["error"]["type"]) == ("error", "api_error")
        assert "message_stop" not in content
        message = event["error"]["message"]
    else:
        assert event["error"]["code"] == code
        message = event["error"]["message"]
    assert any(cure in message for cure in CURES), message
    assert "[DONE]" not in content


async def run(
    tmp_path: Path, behaviour: Behaviour, *, streamed: bool, timeouts: TimeoutConfig = CALM
) -> AsyncIterator[tuple[str, httpx2.Response]]:
    """The answer to a client of each dialect, after the checks that hold for all."""
    settings = UpstreamConfig(retries=0, timeouts=timeouts, max_answer_bytes=2_000_000, breaker_failures=100)
    with Pool.open(tmp_path / "pool.db") as pool:
        async with client_of(pool, behaviour, settings) as (client, address):
            for number, (path, body) in enumerate(BODIES.items()):
                answer = await client.post(f"/episodes/{number}{path}", json={**body, "stream": streamed})
                assert KEY not in answer.text
                assert address not in answer.text
                assert address.partition(":")[2] not in answer.text
                [member] = calls_of_episode(pool.engine, str(number), tenant="default")
                assert (member.call.status, member.call.finish) == ("failed", "")
                assert member.call.error
                assert KEY not in member.call.error
                yield path, answer


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    "behaviour",
    [faults.hangs_up, faults.garbage, faults.bad_length, faults.short_body, faults.not_json, leaky],
)
async def test_a_failure_before_the_answer(tmp_path: Path, behaviour: Behaviour, streamed: bool) -> None:
    async for path, answer in run(tmp_path, behaviour, streamed=streamed):
        assert answer.status_code == 502
        check_error(path, answer.json(), "upstream_error")


@pytest.mark.parametrize("behaviour", [faults.error_first, faults.empty_stream])
async def test_a_stream_that_fails_before_its_first_token(tmp_path: Path, behaviour: Behaviour) -> None:
    async for path, answer in run(tmp_path, behaviour, streamed=True):
        assert answer.status_code == 502
        check_error(path, answer.json(), "upstream_error")


@pytest.mark.parametrize("behaviour", [faults.silent, faults.silent_after_head])
async def test_a_server_that_hangs(tmp_path: Path, behaviour: Behaviour) -> None:
    limits = replace(CALM, first_token=0.1)
    async for path, answer in run(tmp_path, behaviour, streamed=True, timeouts=limits):
        assert answer.status_code == 504
        check_error(path, answer.json(), "upstream_timeout")


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (faults.dies_midway, "upstream_error"),
        (faults.ends_midway, "upstream_error"),
        (faults.garbage_midway, "upstream_error"),
        (faults.error_midway, "upstream_error"),
        (faults.done_midway, "upstream_error"),
        (leaky_midway, "boom"),
        (floods, "upstream_error"),
    ],
)
async def test_a_stream_that_fails_after_its_first_token(tmp_path: Path, behaviour: Behaviour, code: str) -> None:
    async for path, answer in run(tmp_path, behaviour, streamed=True):
        assert answer.status_code == 200
        assert "Hel" in answer.text
        check_end_of_stream(path, answer.text, code)


async def test_a_stream_that_hangs_after_its_first_token(tmp_path: Path) -> None:
    limits = replace(CALM, between_tokens=0.1)
    async for path, answer in run(tmp_path, faults.hangs_midway, streamed=True, timeouts=limits):
        check_end_of_stream(path, answer.text, "upstream_error")


async def test_a_byte_at_a_time_ends_at_the_limit_of_the_whole_call(tmp_path: Path) -> None:
    limits = TimeoutConfig(connect=0.5, first_token=0.5, between_tokens=0.5, whole=0.5)
    async for path, answer in run(tmp_path, drips, streamed=True, timeouts=limits):
        check_end_of_stream(path, answer.text, "upstream_error")


async def test_a_huge_whole_answer_is_refused(tmp_path: Path) -> None:
    async for path, answer in run(tmp_path, floods, streamed=False):
        assert answer.status_code == 502
        check_error(path, answer.json(), "upstream_error")


async def test_a_server_that_nobody_runs_is_named_without_its_address(tmp_path: Path) -> None:
    async for path, answer in run(tmp_path, faults.hangs_up, streamed=False):
        assert "'theirs' broke off" in answer.text
        check_error(path, answer.json(), "upstream_error")
