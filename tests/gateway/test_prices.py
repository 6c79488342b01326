"""Tokens and money of calls over HTTP: records, episodes, metrics, router state, budgets."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from tests.loop.online.online_desk import Desk, open_desk
from upturn.arbiter import Constraints, Consumption, Objective, Uniform
from upturn.config import (
    AccessConfig,
    AgentConfig,
    GatewayConfig,
    ObjectiveConfig,
    PriceConfig,
    RouteConfig,
    TenantConfig,
)
from upturn.dialects import ModelAnswer, ModelRequest, Text, TokenUsage
from upturn.environments.office.kit import OfficeKit
from upturn.gateway import Observer, Parts, Source, build_app, open_gateway
from upturn.gateway.access import PricedTasks, open_guard
from upturn.gateway.observation import GatewayMetrics
from upturn.loop.online import TaskQueue
from upturn.loop.trainers.registry import parse_full_config
from upturn.models.upstreams import UpstreamError
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.calls import calls_of_episode, submit_task
from upturn.records import AgentVersion, ModelUsage, Observation, Task, Trajectory, Turn, Usage

ANN = "ann@1"
PRICES = {ANN: PriceConfig(input=1_000.0, output=10_000.0, cached_input=100.0)}
"""A call with 10 read and 5 written tokens costs 0.06 USD."""
CHAT = {"model": "ann", "messages": [{"role": "user", "content": "hello"}]}
IN_EPISODE = {"x-upturn-episode": "run"}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db") as opened:
        yield opened


@asynccontextmanager
async def gateway(
    pool: Pool, usd_per_day: float | None = None
) -> AsyncIterator[tuple[httpx2.AsyncClient, Desk, GatewayMetrics]]:
    """A gateway with prices; ``usd_per_day``: of the tenant."""
    desk, metrics = open_desk(pool, prices=PRICES), GatewayMetrics()
    access = AccessConfig(tenants=(TenantConfig(name="default", usd_per_day=usd_per_day),))
    guard = open_guard(access, pool, host="127.0.0.1", tenant="default")
    app = build_app(Parts(desk.service, guard, Observer(metrics, None), GatewayConfig()))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client, desk, metrics


async def test_a_second_attempt_is_recorded_counted_and_paid_for(pool: Pool) -> None:
    async with gateway(pool, usd_per_day=100.0) as (client, desk, metrics):

        def answer_late(request: ModelRequest) -> ModelAnswer:
            hedge = desk.upstreams[ANN].calls[-1].hedge
            hedge.answered_by, hedge.unanswered = "second", 1  # as an endpoint does
            return ModelAnswer("", ANN, (Text("late"),), "stop", TokenUsage(10, 5))

        desk.upstreams[ANN].answer = answer_late
        answer = await client.post("/v1/chat/completions", json=CHAT, headers=IN_EPISODE)
        assert answer.status_code == 200
        episode = (await client.get("/v1/episodes/run")).json()
    [entry] = episode["calls"]
    assert (entry["hedge"], entry["input_tokens"], entry["is_usage_estimated"]) == ("second", 10, True)
    assert episode["cost_usd"] == pytest.approx(0.06 + 0.01)  # 10 tokens were read twice
    assert entry["hedged_input_tokens"] == 10
    assert 'upturn_hedges_total{agent="ann",answered_by="second"} 1.0' in metrics.page().decode()


async def test_money_stands_on_calls_episodes_metrics_and_state(pool: Pool) -> None:
    async with gateway(pool) as (client, desk, metrics):
        usage = TokenUsage(10, 5, cached_input=4)
        desk.upstreams[ANN].answer = lambda _: ModelAnswer("", "m", (Text("yes"),), "stop", usage)
        for _ in range(2):
            answer = await client.post("/v1/chat/completions", json=CHAT, headers=IN_EPISODE)
            assert answer.status_code == 200, answer.text
        episode = (await client.get("/v1/episodes/run")).json()
        state = (await client.get("/v1/router/state")).json()
    cost = (6 * 1_000 + 4 * 100 + 5 * 10_000) / 1e6
    assert [call["cost_usd"] for call in episode["calls"]] == [pytest.approx(cost)] * 2
    assert (episode["input_tokens"], episode["cached_input_tokens"], episode["output_tokens"]) == (20, 8, 10)
    assert episode["cost_usd"] == pytest.approx(2 * cost)
    assert not episode["calls"][0]["is_usage_estimated"]
    assert f'upturn_cost_usd_total{{agent="ann"}} {2 * cost}' in metrics.page().decode()
    prices = {entry["version"]: entry["price"] for entry in state["families"][0]["candidates"]}
    shown = {"input": 1_000.0, "cached_input": 100.0, "output": 10_000.0}
    assert prices == {ANN: shown | {"cache_write": 1_000.0, "cache_write_1h": 1_000.0}, "ben@1": None}


async def test_a_model_without_price_has_no_cost(pool: Pool) -> None:
    async with gateway(pool, usd_per_day=0.01) as (client, _, _metrics):
        for _ in range(2):
            answer = await client.post("/v1/chat/completions", json=CHAT | {"model": "ben"}, headers=IN_EPISODE)
            assert answer.status_code == 200, answer.text
        episode = (await client.get("/v1/episodes/run")).json()
    assert episode["cost_usd"] is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/messages", CHAT | {"max_tokens": 9}),
        ("/v1/responses", {"model": "ann", "input": "hello"}),
        ("/v1/embeddings", {"model": "ann", "input": "hello"}),
    ],
)
async def test_a_spent_budget_refuses_in_the_callers_dialect_also_after_a_restart(
    pool: Pool, path: str, body: Any
) -> None:
    async with gateway(pool, usd_per_day=0.1) as (client, desk, _):
        for _ in range(2):
            assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200
        refused = await client.post(path, json=body)
        assert len(desk.upstreams[ANN].calls) == 2
    async with gateway(pool, usd_per_day=0.1) as (client, desk, _):
        again = await client.post(path, json=body)
        assert not desk.upstreams[ANN].calls
    for answer in (refused, again):
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        error = answer.json()["error"]
        assert "has spent 0.12 of 0.1 USD of this day" in error["message"]
        assert (error["type"] == "rate_limit_error") == (path == "/v1/messages")


async def test_a_failed_call_leaves_the_budget_as_it_is(pool: Pool) -> None:
    async with gateway(pool, usd_per_day=0.05) as (client, desk, _):
        desk.upstreams[ANN].error = UpstreamError("down", kind="connect")
        assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 502
        desk.upstreams[ANN].error = None
        assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200
        assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 429


async def test_a_client_that_leaves_pays_an_estimate(pool: Pool) -> None:
    """Leaving before the end does not evade a budget."""
    async with gateway(pool, usd_per_day=0.001) as (client, desk, _):
        upstream = desk.upstreams[ANN]
        upstream.gate = asyncio.Event()
        calling = asyncio.ensure_future(client.post("/v1/chat/completions", json=CHAT, headers=IN_EPISODE))
        while not upstream.calls:
            await asyncio.sleep(0)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        upstream.gate = None
        assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 429
        await desk.service.log.drain()
    [stored] = calls_of_episode(pool.engine, "run", tenant="default")
    assert (stored.call.status, stored.call.input_tokens, stored.call.is_usage_estimated) == ("cancelled", 2, True)
    assert stored.call.cost_usd == pytest.approx(2 * 1_000 / 1e6)


CONFIG = {
    "agents": [
        {"name": "dear", "kind": "callable", "import_path": "tests.gateway.test_prices:answer", "price": "dear"},
        {"name": "free", "kind": "callable", "import_path": "tests.gateway.test_prices:answer", "price": "free"},
    ],
    "prices": {"dear": {"input": 1_000, "output": 1_000}, "free": {"input": 0, "output": 0}},
    "routing": {"policy": "thompson", "objective": {"cost_weight": 10.0}},
    "loop": {"train": []},
}


def answer(instruction: str, turns: object, observation: object) -> str:
    """The agent of these tests."""
    return "yes"


async def test_the_objective_of_the_configuration_routes_to_what_is_cheap(tmp_path: Path) -> None:
    config = parse_full_config({**CONFIG, "pool": {"path": str(tmp_path / "pool.db")}})
    states: list[Any] = []
    for _ in range(2):  # a restart changes no forecast
        with open_gateway(config, Source(None, {}), host="127.0.0.1") as opened:
            transport = httpx2.ASGITransport(app=opened.app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                if not states:
                    body = CHAT | {"model": "default"}
                    decided = [(await client.post("/v1/chat/completions", json=body)).headers for _ in range(20)]
                    thumb = {"metric": "thumbs", "value": 1, "decision_id": decided[0]["x-upturn-decision"]}
                    assert (await client.post("/v1/feedback", json=thumb)).status_code == 200  # it learns now
                states.append((await client.get("/v1/router/state")).json())
    assert sum(headers["x-upturn-agent-version"] == "free@base" for headers in decided) >= 17  # P(fewer) < 1e-5
    assert states[0]["objective"] == {"cost_weight": 10.0, "latency_weight": 0.0, "switch_weight": None}
    free, dear = (
        {c["agent"]: c for c in states[0]["families"][0]["candidates"]}[name] for name in ("free", "dear")
    )
    assert (free["forecast"]["cost_usd"], free["forecast"]["handicap"]) == (0.0, 0.0)
    assert dear["forecast"]["handicap"] == pytest.approx(10 * dear["forecast"]["cost_usd"])
    assert states[1]["families"][0]["candidates"] == states[0]["families"][0]["candidates"]


async def test_calls_in_flight_reserve_what_they_will_probably_cost(pool: Pool) -> None:
    """Ten calls at once do not spend ten times what is left."""
    async with gateway(pool, usd_per_day=6.0) as (client, desk, _):
        desk.service.router.objective = objective(pool)
        upstream = desk.upstreams[ANN]
        upstream.gate = asyncio.Event()
        calls = [asyncio.ensure_future(client.post("/v1/chat/completions", json=CHAT)) for _ in range(10)]
        while sum(call.done() for call in calls) + len(upstream.calls) < 10:
            await asyncio.sleep(0)
        assert len(upstream.calls) == 2  # each is expected to cost 0.5 + 2 USD
        upstream.gate.set()
        answers = await asyncio.gather(*calls)
        assert sorted(answer.status_code for answer in answers) == [200] * 2 + [429] * 8
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert int(refused.headers["retry-after"]) > 0
        error = refused.json()["error"]
        assert error["code"] == "budget_exceeded"
        start = "the tenant 'default' has spent 0 of 6 USD of this day (UTC), and calls in flight will cost about 5"
        reason = "ann@1: expected to cost 2.5 USD, and 1 USD of the budget are left; use a cheaper model"
        assert error["message"].startswith(f"{start}; {reason}")
        assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200  # they cost less


async def test_a_budget_that_nearly_ends_leaves_what_is_cheap(pool: Pool) -> None:
    async with gateway(pool, usd_per_day=1.0) as (client, desk, _):
        desk.service.router.objective = objective(pool)
        for _ in range(10):
            answer = await client.post("/v1/chat/completions", json=CHAT | {"model": "default"})
            assert answer.headers["x-upturn-agent-version"] == "ben@1"
            assert float(answer.headers["x-upturn-propensity"]) == 1.0
        [decision, *_] = pool.decisions(tenant="default")
    reasons = {option.agent_version: option.excluded_by for option in decision.alternatives}
    assert reasons[ANN] == "expected to cost 2.5 USD, and 1 USD of the budget are left"


def objective(pool: Pool) -> Objective:
    """The objective with these prices and no weights."""
    return Objective(ObjectiveConfig(), Consumption(pool, tenant=ALL_TENANTS), PRICES.get)


async def test_a_call_that_no_agent_can_answer_is_refused_with_the_reasons(pool: Pool) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    body = CHAT | {"model": "default", "messages": [{"role": "user", "content": [image]}]}
    blind = [AgentConfig(name, "callable", import_path="a:b", supports=("tools",)) for name in ("ann", "ben")]
    async with gateway(pool) as (client, desk, _):
        desk.service.router.constraints = Constraints(blind)
        refused = await client.post("/v1/chat/completions", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "no_able_agent")
        assert (
            "ann@1: does not support images; ben@1: does not support images" in refused.json()["error"]["message"]
        )
        desk.service.router.constraints = Constraints(blind[:1])
        desk.upstreams["ben@1"].error = UpstreamError("down", kind="connect")
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 502
        assert not desk.upstreams[ANN].calls  # it is no fallback either


async def test_a_route_may_allow_some_regions_only(pool: Pool) -> None:
    settings = GatewayConfig(routes=(RouteConfig(name="default", regions=("eu",)), RouteConfig(name="any")))
    desk = open_desk(pool, settings)
    agents = [AgentConfig(name, "callable", import_path="a:b", region=where) for name, where in HOMES]
    desk.service.router.constraints = Constraints(agents)
    guard = open_guard(AccessConfig(), pool, host="127.0.0.1", tenant="default")
    app = build_app(Parts(desk.service, guard, Observer(GatewayMetrics(), None), settings))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for _ in range(8):
            answer = await client.post("/v1/chat/completions", json=CHAT | {"model": "default"})
            assert answer.headers["x-upturn-agent-version"] == "ben@1"
        answer = await client.post("/v1/chat/completions", json=CHAT | {"model": "any"})
        assert float(answer.headers["x-upturn-propensity"]) == 0.5


HOMES = (("ann", "us"), ("ben", "eu"))


async def test_an_episode_switches_only_where_that_is_weighed_and_no_tool_loop_is_open(pool: Pool) -> None:
    async with gateway(pool) as (client, desk, _):
        weights = ObjectiveConfig(switch_weight=0.0)
        desk.service.router.objective = Objective(weights, Consumption(pool, tenant=ALL_TENANTS), PRICES.get)
        desk.service.router.policy = Uniform()
        tool = {"type": "function", "function": {"name": "find", "parameters": {}}}
        asked = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
        question = {"role": "user", "content": "hello"}
        loop = [question, {"role": "assistant", "tool_calls": [asked]}]
        served: dict[str, set[str]] = {"plain": set(), "loop": set()}
        for number in range(30):
            for name, versions in served.items():
                messages = [*loop, {"role": "tool", "tool_call_id": "c1", "content": f"{number}"}]
                messages = messages if name == "loop" else [{"role": "user", "content": f"hello {number}"}]
                body = {"model": "default", "messages": messages, "tools": [tool]}
                answer = await client.post("/v1/chat/completions", json=body, headers={"x-upturn-episode": name})
                assert answer.status_code == 200, answer.text
                versions.add(answer.headers["x-upturn-agent-version"])
        state = (await client.get("/v1/router/state")).json()
    assert served["plain"] == {ANN, "ben@1"}  # P(one of them only) = 2 ** -29
    assert len(served["loop"]) == 1
    assert state["objective"]["switch_weight"] == 0.0
    decisions = [decision for decision in pool.decisions(tenant="default") if decision.episode == "plain"]
    before = [None, *(decision.chosen for decision in decisions)]
    assert [decision.current for decision in decisions] == before[:-1]


async def test_a_task_shows_its_tokens_and_its_cost(pool: Pool) -> None:
    desk, metrics = open_desk(pool, prices=PRICES), GatewayMetrics()
    guard = open_guard(AccessConfig(), pool, host="127.0.0.1", tenant="default")
    accounts = PricedTasks(pool, guard.limiter, guard.gate, lambda version: PRICES.get(version.id))
    queue = TaskQueue(pool, cast(Any, None), accounts=accounts)  # nothing is run here
    parts = Parts(desk.service, guard, Observer(metrics, None), GatewayConfig(), tasks=queue)
    pool.append(AgentVersion("ann", "1", "endpoint"), AgentVersion("ben", "1", "endpoint"))
    turns = (
        Turn(Observation("a"), "b", None, usage=ModelUsage(10, 5, 4, is_estimated=True)),
        Turn(Observation("c"), "d", None, call=1),
    )
    for name, version in (("paid", ANN), ("unpriced", "ben@1"), ("silent", ANN), ("queued", "")):
        submit_task(pool, Task(name, "do", "desk", "office"), "")
        if version:
            done = Trajectory(f"run-{name}", name, version, turns, Observation(""), "finished", "rendered")
            used = Usage() if name == "silent" else Usage(10, 5)
            pool.append(replace(done, usage=used, cached_tokens=4, is_usage_estimated=True))
    transport = httpx2.ASGITransport(app=build_app(parts))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        names = ("paid", "unpriced", "silent", "queued")
        shown = {name: (await client.get(f"/v1/tasks/{name}")).json() for name in names}
    tokens = ("input_tokens", "cached_input_tokens", "output_tokens", "is_usage_estimated")
    assert [[shown[name][field] for field in tokens] for name in names] == [
        [10, 4, 5, True],
        [10, 4, 5, True],
        [None, None, None, False],
        [None, None, None, False],
    ]
    cost = (6 * 1_000 + 4 * 100 + 5 * 10_000) / 1e6
    assert [shown[name]["cost_usd"] for name in names] == [pytest.approx(cost), None, None, None]
    of_turns = [(turn["input_tokens"], turn["output_tokens"]) for turn in shown["paid"]["turns"]]
    assert of_turns == [(10, 5), (None, None)]


async def test_a_spent_budget_refuses_tasks_too(tmp_path: Path) -> None:
    access = {"tenants": [{"name": "default", "usd_per_day": 0.0001}]}
    config = parse_full_config({**CONFIG, "access": access, "pool": {"path": str(tmp_path / "pool.db")}})
    with open_gateway(config, Source(None, {}), host="127.0.0.1") as opened:
        opened.service.router.objective = None  # the first call is not refused for what it will probably cost
        transport = httpx2.ASGITransport(app=opened.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            [drawn] = islice(OfficeKit().tasks(seed=0, split="train", families=["mail_move"]), 1)
            task = {"instruction": drawn.instruction, "family": drawn.family, "seed": drawn.seed}
            task["context"] = dict(drawn.context)
            assert (await client.post("/v1/tasks", json=task)).status_code == 202
            called = await client.post("/v1/chat/completions", json=CHAT | {"model": "dear"})
            assert called.status_code == 200, called.text
            refused = await client.post("/v1/tasks", json=task)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_exceeded")
    assert "try again in" in refused.json()["error"]["message"]
