"""The HTTP application: dialects, headers, errors, feedback, episodes, retries, departures."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from tests.loop.online.online_desk import Desk, open_desk
from upturn.config import AccessConfig, GatewayConfig, MetricConfig
from upturn.dialects import Text, ToolCall
from upturn.gateway import Observer, Parts, build_app
from upturn.gateway.access import open_guard
from upturn.gateway.observation import GatewayMetrics
from upturn.models.upstreams import UpstreamError
from upturn.pool import Location, Pool
from upturn.pool.calls import calls_of_episode

CHAT = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}
MESSAGES = {"model": "default", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}
UNKNOWN = json.dumps(MESSAGES | {"model": "gpt"}).encode()
RESPONSES = {"model": "default", "input": "hello"}


@asynccontextmanager
async def client_of(
    pool: Pool, metrics: tuple[MetricConfig, ...] = (), **settings: Any
) -> AsyncIterator[tuple[httpx2.AsyncClient, Desk, FastAPI]]:
    """An HTTP client of an application over the pool."""
    desk = open_desk(pool)
    guard = open_guard(AccessConfig(), pool, host="127.0.0.1", tenant="default")
    observer = Observer(GatewayMetrics(), None)
    config = GatewayConfig(max_body_bytes=100_000, metrics=metrics)
    app = build_app(Parts(desk.service, guard, observer, config, **settings))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client, desk, app


@pytest.fixture
def pool(location: Location) -> Any:
    with Pool.open(location) as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/v1/chat/completions", CHAT, lambda body: body["choices"][0]["message"]["content"]),
        ("/v1/messages", MESSAGES, lambda body: body["content"][0]["text"]),
        ("/v1/responses", RESPONSES, lambda body: body["output"][0]["content"][0]["text"]),
    ],
)
async def test_a_call_in_each_dialect(pool: Pool, path: str, body: Any, text: Any) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    version = answer.headers["x-upturn-agent-version"]
    assert text(answer.json()) == f"{version} heard 1"
    assert answer.json()["id"] == answer.headers["x-upturn-decision"]
    assert float(answer.headers["x-upturn-propensity"]) == 0.5
    [decision] = pool.decisions(tenant="default")
    assert decision.id == answer.json()["id"]


@pytest.mark.parametrize(
    ("path", "body", "last"),
    [
        ("/v1/chat/completions", CHAT, "data: [DONE]"),
        ("/v1/messages", MESSAGES, "event: message_stop"),
        ("/v1/responses", RESPONSES, "event: response.completed"),
    ],
)
async def test_a_stream_in_each_dialect(pool: Pool, path: str, body: Any, last: str) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post(path, json=body | {"stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.strip().split("\n\n")[-1].startswith(last)
    [decision] = pool.decisions(tenant="default")
    assert f'"id":"{decision.id}"' in answer.text


async def test_the_url_names_the_episode(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        versions = set()
        for number in range(6):
            body = {**CHAT, "messages": [{"role": "user", "content": f"question {number}"}]}
            answer = await client.post("/episodes/run-7/v1/chat/completions", json=body)
            assert answer.headers["x-upturn-episode"] == "run-7"
            versions.add(answer.headers["x-upturn-agent-version"])
        assert len(versions) == 1
        episode = (await client.get("/v1/episodes/run-7")).json()
    assert [call["fork_cause"] for call in episode["calls"]] == [""] + ["new_conversation"] * 5
    assert not episode["is_sealed"]


@pytest.mark.parametrize("header", ["x-upturn-episode", "x-claude-code-session-id", "session-id"])
async def test_headers_of_harnesses_name_the_episode(pool: Pool, header: str) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post("/v1/chat/completions", json=CHAT, headers={header: "session 5"})
        assert answer.headers["x-upturn-episode"] == "session 5"
        bad = await client.post("/v1/chat/completions", json=CHAT, headers={header: "x" * 201})
        assert (bad.status_code, bad.json()["error"]["code"]) == (400, "invalid_episode")


async def test_feedback_is_stored_once_and_reaches_the_learner(pool: Pool) -> None:
    learned: list[int] = []
    async with client_of(pool, learn=lambda: learned.append(1)) as (client, _, _app):
        decision = (await client.post("/v1/chat/completions", json=CHAT)).json()["id"]
        value = {"metric": "success", "value": True, "decision_id": decision}
        states = [(await client.post("/v1/feedback", json=value)).json()["state"] for _ in range(2)]
        other = (await client.post("/v1/feedback", json=value | {"value": 0})).json()["state"]
        named = value | {"id": "mine", "metric": "thumbs"}
        assert (await client.post("/v1/feedback", json=named)).json()["state"] == "stored"
        conflict = await client.post("/v1/feedback", json=named | {"value": 0.5})
    assert states == ["stored", "known"]
    assert other == "contradicts"
    assert conflict.status_code == 409
    assert len(learned) == 4
    stored = [(feedback.metric, feedback.value) for feedback in pool.feedback(tenant="default")]
    assert stored == [("success", 1.0), ("success", 0.0), ("thumbs", 1.0)]


async def test_what_is_still_in_the_journal_can_be_rated_shown_and_sealed_at_once(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "pool.db", has_journal=True) as pool:
        async with client_of(pool) as (client, _, _app):
            for number in range(3):
                answer = await client.post(f"/episodes/e{number}/v1/chat/completions", json=CHAT)
                value = {"metric": "success", "value": 1, "decision_id": answer.json()["id"]}
                assert (await client.post("/v1/feedback", json=value)).json()["state"] == "stored"
            await client.post("/episodes/e3/v1/chat/completions", json=CHAT)
            assert len((await client.get("/v1/episodes/e3")).json()["calls"]) == 1
            await client.post("/episodes/e3/v1/chat/completions", json=CHAT)
            state = (await client.get("/v1/router/state")).json()
            assert state["families"][0]["decisions"] == 5
            await client.post("/episodes/e3/v1/chat/completions", json=CHAT)
            assert len((await client.post("/v1/episodes/e3/seal")).json()["calls"]) == 3


async def test_feedback_on_an_episode(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        await client.post("/episodes/s/v1/chat/completions", json=CHAT)
        answer = await client.post("/v1/feedback", json={"metric": "success", "value": 0.5, "episode_id": "s"})
        assert answer.json()["state"] == "stored"


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ({"metric": "thumbs", "value": 1, "decision_id": "no-such"}, 404, "no decision 'no-such'"),
        ({"metric": "thumbs", "value": 1}, 400, "exactly one of"),
        ({"metric": "thumbs", "value": 1, "decision_id": "a", "episode_id": "b"}, 400, "exactly one of"),
        (
            {"metric": "speed", "value": 1, "decision_id": "a"},
            400,
            "unknown metric 'speed'; declared: success, thumbs",
        ),
        ({"metric": "thumbs", "value": "high", "decision_id": "a"}, 400, "value"),
        ({"metric": "thumbs", "decision_id": "a"}, 400, "value"),
        ({"metric": "thumbs", "value": 1, "decision_id": "a", "extra": 1}, 400, "extra"),
    ],
)
async def test_unusable_feedback_is_refused_and_not_stored(
    pool: Pool, body: Any, status: int, problem: str
) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post("/v1/feedback", json=body)
        page = (await client.get("/metrics")).text
    assert (answer.status_code, problem in answer.json()["error"]["message"]) == (status, True), answer.text
    assert not list(pool.feedback(tenant="default"))
    is_form = answer.json()["error"]["message"].startswith(
        ("value: ", "value is", "extra is")
    )  # no feedback at all
    assert ('upturn_feedback_total{outcome="refused"} 1.0' in page) is not is_form


@pytest.mark.parametrize("value", ["NaN", "1e400", '"1"', "null", "[]"])
async def test_what_is_no_finite_number_is_no_feedback(pool: Pool, value: str) -> None:
    body = f'{{"metric": "thumbs", "value": {value}, "decision_id": "a"}}'
    async with client_of(pool) as (client, _, _app):
        answer = await client.post("/v1/feedback", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "value", answer.text


@pytest.mark.parametrize(
    ("path", "content", "status", "code"),
    [
        ("/v1/chat/completions", b"{", 400, "invalid_json"),
        (
            "/v1/chat/completions",
            b'{"model":"default","tools":[{"type":"web_search"}],"messages":[],"tools":[]}',
            400,
            "invalid_json",
        ),
        (
            "/v1/chat/completions",
            b'{"model":"default","messages":[{"role":"user","role":"system","content":"hi"}]}',
            400,
            "invalid_json",
        ),
        ("/v1/chat/completions", b"[]", 400, "invalid_request"),
        ("/v1/chat/completions", b'{"model": "default"}', 400, "invalid_request"),
        ("/v1/chat/completions", UNKNOWN, 404, "model_not_found"),
        ("/v1/chat/completions", b"x" * 100_001, 413, "body_too_large"),
        ("/v1/nothing", b"{}", 404, "not_found"),
    ],
)
async def test_errors_have_the_form_of_the_dialect(
    pool: Pool, path: str, content: bytes, status: int, code: str
) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post(path, content=content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        anthropic = await client.post(
            path.replace("chat/completions", "messages"),
            content=content,
            headers={"anthropic-version": "2023-06-01"},
        )
    assert anthropic.status_code == status
    assert anthropic.json()["type"] == "error"
    assert not list(pool.decisions(tenant="default"))


async def test_a_failed_upstream_is_a_502_and_a_stored_failure(pool: Pool) -> None:
    async with client_of(pool) as (client, desk, _app):
        for upstream in desk.upstreams.values():
            upstream.error = UpstreamError("down", kind="connect")
        answer = await client.post("/episodes/s/v1/chat/completions", json=CHAT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    [member] = calls_of_episode(pool.engine, "s", tenant="default")
    assert (member.call.status, member.call.error) == ("failed", "down")


async def test_an_overloaded_upstream_says_when_to_come_back(pool: Pool) -> None:
    async with client_of(pool) as (client, desk, _app):
        for upstream in desk.upstreams.values():
            upstream.error = UpstreamError("slow down", kind="status", status=429, retry_after_seconds=7)
        answer = await client.post("/v1/chat/completions", json=CHAT)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


async def test_a_marked_retry_gets_the_first_answer_and_an_equal_body_another(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):

        async def ask(count: str | None) -> httpx2.Response:
            headers = {} if count is None else {"x-stainless-retry-count": count}
            return await client.post("/v1/chat/completions", json=CHAT, headers=headers)

        first, retried, again, unmarked = [await ask(count) for count in ("0", "1", "0", None)]
    assert retried.content == first.content
    assert retried.headers["x-upturn-replayed"] == "true"
    assert len({first.json()["id"], again.json()["id"], unmarked.json()["id"]}) == 3
    assert len(list(pool.decisions(tenant="default"))) == 3


async def test_a_retry_during_the_first_call_waits_for_it(pool: Pool) -> None:
    async with client_of(pool) as (client, desk, _app):
        gate = asyncio.Event()
        for upstream in desk.upstreams.values():
            upstream.gate = gate
        calls = [
            asyncio.ensure_future(
                client.post("/v1/chat/completions", json=CHAT, headers={"x-stainless-retry-count": count})
            )
            for count in ("0", "1")
        ]
        while not any(upstream.calls for upstream in desk.upstreams.values()):
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        gate.set()
        first, second = await asyncio.gather(*calls)
    assert first.content == second.content
    assert sum(len(upstream.calls) for upstream in desk.upstreams.values()) == 1


async def test_a_client_that_leaves_before_the_first_token_ends_the_call(pool: Pool) -> None:
    async with client_of(pool) as (_, desk, app):
        for upstream in desk.upstreams.values():
            upstream.gate = asyncio.Event()
        messages = [{"type": "http.request", "body": json.dumps(CHAT).encode()}]
        left = asyncio.Event()
        sent: list[Any] = []

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/episodes/s/v1/chat/completions", "headers": []}
        serving = asyncio.ensure_future(app(scope | {"query_string": b"", "root_path": ""}, receive, send))
        while not any(upstream.calls for upstream in desk.upstreams.values()):
            await asyncio.sleep(0)
        left.set()
        await serving
        await desk.service.log.drain()
        assert sum(upstream.cancelled for upstream in desk.upstreams.values()) == 1
    assert sent == []
    [member] = calls_of_episode(pool.engine, "s", tenant="default")
    assert member.call.status == "cancelled"


async def test_the_state_shows_probabilities_that_add_up(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        await client.post("/v1/chat/completions", json=CHAT, headers={"x-upturn-family": "greeting"})
        state = (await client.get("/v1/router/state")).json()
        unknown = await client.get("/v1/router/state", params={"route": "nowhere"})
    assert [family["family"] for family in state["families"]] == ["greeting"]
    candidates = state["families"][0]["candidates"]
    assert sum(candidate["probability"] for candidate in candidates) == pytest.approx(1.0)
    assert sum(candidate["decisions"] for candidate in candidates) == 1
    assert unknown.status_code == 404


async def test_models_are_routes_agents_and_versions(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        body = (await client.get("/v1/models")).json()
        assert (await client.get("/health")).json()["status"] == "ok"
        one = await client.get("/v1/models/ann@1")
        unknown = await client.get("/v1/models/gpt")
    assert [entry["id"] for entry in body["data"]] == ["default", "ann", "ben", "ann@1", "ben@1"]
    assert one.json() == body["data"][3]
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


async def test_the_openapi_document_has_every_endpoint(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        paths = (await client.get("/openapi.json")).json()["paths"]
    assert {
        "/v1/chat/completions", "/v1/responses", "/v1/messages", "/episodes/{episode}/v1/messages", "/v1/feedback",
        "/v1/models", "/v1/router/state", "/health", "/v1/episodes/{episode}", "/v1/episodes/{episode}/seal",
    } <= paths.keys()  # fmt: skip


async def test_the_openapi_document_says_what_is_sent(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        document = (await client.get("/openapi.json")).json()
        again = (await client.get("/openapi.json")).json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert again == document
    assert document["paths"]["/v1/models"]["get"]["summary"] == "List the names that `model` may have."
    assert not [operation for operation in operations if "422" in operation["responses"]]
    assert document["paths"]["/metrics"]["get"]["responses"]["200"]["content"].keys() == {"text/plain"}
    body = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["model", "messages"]
    assert body["properties"]["model"]["examples"] == ["default"]
    message = body["properties"]["messages"]["items"]["$ref"].rpartition("/")[2]
    assert "tool_call_id" in document["components"]["schemas"][message]["properties"]
    counted = document["paths"]["/v1/messages/count_tokens"]["post"]["requestBody"]["content"]["application/json"]
    assert counted["schema"]["required"] == ["model", "messages"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/tasks", "GET, POST"),
        ("/v1/tasks/t1", "GET"),
        ("/v1/tasks/t1/cancel", "POST"),
        ("/v1/episodes/e1/seal", "POST"),
        ("/v1/messages", "POST"),
    ],
)
async def test_a_wrong_method_names_the_right_ones(pool: Pool, path: str, allowed: str) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.request("PATCH", path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


async def test_tool_calls_pass_between_dialects(pool: Pool) -> None:
    async with client_of(pool) as (client, desk, _app):
        for upstream in desk.upstreams.values():
            calls = (ToolCall("c1", "find", '{"a": 1}'), ToolCall("c2", "find", '{"a": 2}'))
            upstream.answer_with(Text("I look."), *calls, finish="tool_calls")
        tools = [{"name": "find", "input_schema": {"type": "object", "properties": {}}}]
        answer = (await client.post("/v1/messages", json=MESSAGES | {"tools": tools})).json()
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use", "tool_use"]
    assert [block["input"] for block in answer["content"][1:]] == [{"a": 1}, {"a": 2}]
    assert answer["stop_reason"] == "tool_use"


async def test_embeddings_are_passed_through_and_stored(pool: Pool) -> None:
    async with client_of(pool) as (client, desk, _app):
        answer = await client.post(
            "/v1/embeddings", json={"model": "default", "input": ["a", "b"], "dimensions": 3}
        )
        bad = await client.post("/v1/embeddings", json={"model": "default"})
        for upstream in desk.upstreams.values():
            upstream.error = UpstreamError("down", kind="connect")
        failed = await client.post("/v1/embeddings", json={"model": "default", "input": "a"})
    assert answer.json()["usage"] == {"prompt_tokens": 7}
    assert (bad.status_code, failed.status_code) == (400, 502)
    [decision, _] = pool.decisions(tenant="default")
    assert decision.family == "embeddings"
    [member] = calls_of_episode(pool.engine, answer.headers["x-upturn-episode"], tenant="default")
    assert (member.call.id, member.call.status, member.call.input_tokens) == (decision.id, "answered", 7)


async def test_count_tokens_is_an_estimate_and_readiness_needs_an_agent(pool: Pool) -> None:
    body = {"model": "default", "messages": [{"role": "user", "content": "x" * 400}]}
    async with client_of(pool) as (client, desk, _app):
        count = await client.post("/v1/messages/count_tokens", json=body)
        ready = await client.get("/ready")
        for agent in ("ann", "ben"):
            desk.service.router.registry.remove(agent)
        not_ready = await client.get("/ready")
    assert (count.json(), count.headers["x-upturn-estimate"]) == ({"input_tokens": 100}, "true")
    assert (ready.status_code, not_ready.status_code) == (200, 503)


async def test_text_that_is_not_unicode_and_nan_in_a_schema_are_errors_of_the_request(pool: Pool) -> None:
    feedback = b'{"metric": "thumbs", "value": 1, "decision_id": "\\ud800"}'
    tool = b'{"type": "function", "function": {"name": "f", "parameters": {"maximum": NaN}}}'
    call = b'{"model": "default", "messages": [{"role": "user", "content": "x"}], "tools": [' + tool + b"]}"
    async with client_of(pool) as (client, _, _app):
        unknown = await client.post("/v1/feedback", content=feedback)
        infinite = await client.post("/v1/chat/completions", content=call)
    assert (unknown.status_code, infinite.status_code) == (400, 400)
    assert not list(pool.decisions(tenant="default"))


@pytest.mark.parametrize("path", ["/v1/feedback", "/v1/embeddings", "/v1/messages/count_tokens", "/v1/tasks"])
async def test_every_body_is_bounded(pool: Pool, path: str) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post(path, content=b"x" * 100_001)
    assert answer.status_code == 413
    assert "at most 100,000 are read" in answer.json()["error"]["message"]


async def test_a_wrong_method_has_its_own_code(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.get("/v1/feedback")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
