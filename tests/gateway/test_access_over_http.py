"""Keys, roles, isolation, limits and tools of providers, as clients meet them."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.loop.online.online_desk import Desk, open_desk
from upturn.config import AccessConfig, GatewayConfig, LimitSettings, RouteConfig
from upturn.errors import ConfigError
from upturn.gateway import Observer, Parts, build_app
from upturn.gateway.access import open_guard
from upturn.gateway.observation import GatewayMetrics
from upturn.pool import Pool
from upturn.pool.access import KeyStore, make_key
from upturn.pool.calls import calls_of_episode
from upturn.records import ApiKey, Role

OPEN = AccessConfig()
CHAT = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db") as opened:
        yield opened


def add_key(pool: Pool, tenant: str, *roles: Role, usd_per_day: float | None = None) -> str:
    """A new key of the tenant."""
    made = make_key()
    key = ApiKey(made.id, made.digest, tenant, "test", roles, created_at=0.0, usd_per_day=usd_per_day)
    with KeyStore(pool.location) as store:
        store.add(key, who="test")
    return made.key


@asynccontextmanager
async def gateway(
    pool: Pool,
    access: AccessConfig = OPEN,
    routes: Sequence[RouteConfig] = (),
) -> AsyncIterator[tuple[httpx2.AsyncClient, Desk, GatewayMetrics]]:
    settings = GatewayConfig(routes=tuple(routes))
    desk, metrics = open_desk(pool, settings), GatewayMetrics()
    guard = open_guard(access, pool, host="127.0.0.1", tenant="default", on_queue=metrics.show_queue)
    app = build_app(Parts(desk.service, guard, Observer(metrics, None), settings))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client, desk, metrics


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_once_a_key_exists_every_request_needs_one(pool: Pool) -> None:
    key = add_key(pool, "shop", "client")
    async with gateway(pool) as (client, _, _metrics):
        without = await client.post("/v1/chat/completions", json=CHAT)
        wrong = await client.post("/v1/chat/completions", json=CHAT, headers=bearer(key[:20] + make_key().key[20:]))
        right = await client.post("/v1/chat/completions", json=CHAT, headers=bearer(key))
        anthropic = await client.post(
            "/v1/messages", json={**CHAT, "max_tokens": 5}, headers={"x-api-key": key, "anthropic-version": "x"}
        )
    assert [answer.status_code for answer in (without, wrong, right, anthropic)] == [401, 401, 200, 200]
    assert without.json()["error"]["code"] == "invalid_api_key"
    assert {decision.tenant for decision in pool.decisions(tenant="shop")} == {"shop"}


async def test_roles_limit_what_a_key_may_do(pool: Pool) -> None:
    calling, judging = add_key(pool, "shop", "client"), add_key(pool, "shop", "feedback")
    async with gateway(pool) as (client, _, _metrics):
        decision = (await client.post("/v1/chat/completions", json=CHAT, headers=bearer(calling))).json()["id"]
        value = {"metric": "success", "value": 1, "decision_id": decision}
        refused = [
            await client.post("/v1/chat/completions", json=CHAT, headers=bearer(judging)),
            await client.post("/v1/feedback", json=value, headers=bearer(calling)),
            await client.get("/v1/router/state", headers=bearer(calling)),
            await client.get("/metrics", headers=bearer(calling)),
        ]
        allowed = await client.post("/v1/feedback", json=value, headers=bearer(judging))
    assert [answer.status_code for answer in refused] == [403] * 4
    assert allowed.status_code == 200


async def test_another_tenants_ids_are_answered_as_unknown_ones(pool: Pool) -> None:
    ours, theirs = add_key(pool, "a", "client", "feedback"), add_key(pool, "b", "client", "feedback")
    async with gateway(pool) as (client, _, _metrics):
        answer = await client.post("/episodes/s/v1/chat/completions", json=CHAT, headers=bearer(ours))
        real, unknown = answer.json()["id"], "0" * 24

        async def ask(decision: str, episode: str) -> list[tuple[int, str]]:
            value = {"metric": "success", "value": 1}
            answers = [
                await client.post("/v1/feedback", json=value | {"decision_id": decision}, headers=bearer(theirs)),
                await client.post("/v1/feedback", json=value | {"episode_id": episode}, headers=bearer(theirs)),
                await client.get(f"/v1/episodes/{episode}", headers=bearer(theirs)),
                await client.post(f"/v1/episodes/{episode}/seal", headers=bearer(theirs)),
            ]
            texts = [reply.text.replace(decision, "ID").replace(f"'{episode}'", "'E'") for reply in answers]
            return [(reply.status_code, text) for reply, text in zip(answers, texts, strict=True)]

        assert await ask(real, "s") == await ask(unknown, "no-such")
        assert {status for status, _ in await ask(real, "s")} == {404}
        mine = await client.post("/episodes/s/v1/chat/completions", json=CHAT, headers=bearer(theirs))
        assert mine.headers["x-upturn-episode"] != answer.headers["x-upturn-episode"]


async def test_a_rate_limit_says_when_to_come_back_and_stores_nothing(pool: Pool) -> None:
    key = add_key(pool, "shop", "client")
    access = AccessConfig(key_limits=LimitSettings(requests_per_minute=2))
    async with gateway(pool, access) as (client, _, metrics):
        answers = [await client.post("/v1/chat/completions", json=CHAT, headers=bearer(key)) for _ in range(3)]
        page = metrics.page().decode()
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[2].headers["retry-after"]) > 0
    assert len(list(pool.decisions(tenant="shop"))) == 2
    assert 'upturn_refused_total{reason="rate_limit"} 1.0' in page
    assert 'upturn_requests_total{agent="ann",dialect="chat",route="default",status="200"}' in page or (
        'upturn_requests_total{agent="ben",dialect="chat",route="default",status="200"}' in page
    )
    assert 'upturn_overhead_seconds_count{dialect="chat"} 2.0' in page


async def test_a_full_gateway_refuses_and_recovers(pool: Pool) -> None:
    access = AccessConfig(max_in_flight=1, max_waiting=1)
    async with gateway(pool, access) as (client, desk, _metrics):
        gate = asyncio.Event()
        for upstream in desk.upstreams.values():
            upstream.gate = gate
        calls = [asyncio.ensure_future(client.post("/v1/chat/completions", json=CHAT)) for _ in range(3)]
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        [refused] = [call.result() for call in done]
        gate.set()
        answers = [await call for call in calls]
        later = await client.post("/v1/chat/completions", json=CHAT)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
    assert int(refused.headers["retry-after"]) >= 1
    assert sorted(answer.status_code for answer in answers) == [200, 200, 503]
    assert later.status_code == 200


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_ten_times_too_many_calls_are_refused_except_those_that_have_a_place(
    pool: Pool, is_streamed: bool
) -> None:
    access = AccessConfig(max_in_flight=2, max_waiting=2)
    async with gateway(pool, access) as (client, desk, _metrics):
        gate = asyncio.Event()
        for upstream in desk.upstreams.values():
            upstream.gate = gate
        body = {**CHAT, "stream": is_streamed}
        calls = [asyncio.ensure_future(client.post("/v1/chat/completions", json=body)) for _ in range(40)]
        refused = []
        for call in asyncio.as_completed(calls):
            refused.append(await call)
            if len(refused) == 36:
                break
        gate.set()
        answers = [await call for call in calls]
        again = [await client.post("/v1/chat/completions", json=body) for _ in range(4)]
    assert {(answer.status_code, answer.json()["error"]["code"]) for answer in refused} == {(503, "overloaded")}
    assert all(1 <= int(answer.headers["retry-after"]) <= 60 for answer in refused)
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [503] * 36
    assert [answer.status_code for answer in again] == [200] * 4
    assert len(list(pool.decisions(tenant="default"))) == 8, "a refused call is not decided"


SEARCH = {"model": "open", "max_tokens": 5, "tools": [{"type": "web_search_20250305", "name": "web_search"}],
          "messages": [{"role": "user", "content": "hello"}]}  # fmt: skip


@pytest.mark.parametrize("policy", ["allow", "strip", "refuse"])
async def test_tools_that_the_provider_runs_are_allowed_stripped_or_refused(pool: Pool, policy: Any) -> None:
    routes = [RouteConfig(name="open", provider_tools=policy)]
    async with gateway(pool, routes=routes) as (client, desk, _metrics):
        answer = await client.post("/episodes/s/v1/messages", json=SEARCH)
        [*sent] = [call for upstream in desk.upstreams.values() for call in upstream.calls]
    if policy == "refuse":
        assert (answer.status_code, sent) == (400, [])
        assert "web search" in answer.json()["error"]["message"]
        return
    assert answer.status_code == 200
    assert ("tools" in json.loads(sent[0].body)) == (policy == "allow")
    [member] = calls_of_episode(pool.engine, "s", tenant="default")
    assert member.call.changes == (() if policy == "allow" else ("tools.0 (web search)",))


def test_an_address_that_others_reach_needs_a_key(pool: Pool) -> None:
    with pytest.raises(ConfigError, match=r"gateway.host = '0.0.0.0' can be reached from other machines"):
        open_guard(AccessConfig(), pool, host="0.0.0.0", tenant="default")
    add_key(pool, "shop", "client")
    open_guard(AccessConfig(), pool, host="0.0.0.0", tenant="default")


async def test_web_pages_and_strange_hosts_are_refused_without_keys(pool: Pool) -> None:
    async with gateway(pool) as (client, _, _metrics):
        page = await client.post("/v1/chat/completions", json=CHAT, headers={"origin": "https://evil.example"})
        host = await client.post("/v1/chat/completions", json=CHAT, headers={"host": "evil.example"})
    assert [page.status_code, host.status_code] == [403, 403]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/feedback", "/v1/tasks", "/v1/nothing"])
async def test_an_unknown_caller_is_refused_before_its_body_is_read(pool: Pool, path: str) -> None:
    add_key(pool, "acme", "client")
    read: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        for part in (b'{"value', b'": wrong'):
            read.append(part)
            yield part

    async with gateway(pool) as (client, _, _):
        answer = await client.post(path, content=body(), headers={"content-type": "application/json"})
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/openapi.json")).status_code == 200
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    assert read == []
