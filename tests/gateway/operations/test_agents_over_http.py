"""Agents over HTTP: profiles, limits, versions, validation, and who may do it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployment.test_agents import done
from tests.gateway.live_desk import NEW, OLD, OTHER, WHY, config_of, live
from tests.gateway.test_access_over_http import add_key, bearer
from upturn.config import Config
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.access import admin_acts
from upturn.records import AgentLimits, AgentVersion


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Config]:
    yield config_of(tmp_path / "pool.db")


async def test_an_agent_is_shown_with_its_versions_limits_and_profile(config: Config) -> None:
    async with live(config) as desk:
        await desk.serve(4, {OLD: 1.0})
        await desk.serve(1, {OLD: 0.0})
        listed = (await desk.client.get("/v1/agents")).json()["data"]
        assert [(entry["name"], entry["version"]) for entry in listed] == [("clerk", OLD), ("helper", OTHER)]
        shown = (await desk.client.get("/v1/agents/clerk")).json()
        assert [version["id"] for version in shown["versions"]] == [OLD, NEW]
        [row] = shown["profile"]
        assert (row["version"], row["family"], row["outcomes"], row["successes"]) == (OLD, "general", 5, 4.0)
        assert row["mean"] == pytest.approx(5 / 7)  # Beta(1 + 4, 1 + 1)
        assert 0.3 < row["low"] < row["mean"] < row["high"] < 0.96
        await desk.serve(1, {OLD: 1.0})
        assert (await desk.client.get("/v1/agents/clerk")).json()["profile"][0]["outcomes"] == 6
        assert (await desk.client.get("/v1/agents/helper")).json()["profile"] == []
        release = await desk.start_release()
        shown = (await desk.client.get("/v1/agents/clerk")).json()
        assert (shown["candidate"], shown["candidate_share"], shown["release"]) == (NEW, 0.5, release)


async def test_a_suspended_agent_gets_no_calls_until_it_serves_again(config: Config) -> None:
    async with live(config) as desk:
        changed = await desk.client.patch("/v1/agents/clerk", json={"is_suspended": True, **WHY})
        assert changed.json()["limits"]["is_suspended"]
        body = {"model": "clerk", "messages": [{"role": "user", "content": "do it"}]}
        refused = await desk.client.post("/v1/chat/completions", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_agent")
        assert refused.headers["retry-after"] == "5"
        assert WHY["why"] not in refused.text, "what operators write about agents is not for clients"
        limits = {"is_suspended": False, "max_concurrent": 3, "environments": ["office"], **WHY}
        changed = await desk.client.patch("/v1/agents/clerk", json=limits)
        assert (changed.json()["load_cap"], changed.json()["limits"]["environments"]) == (3, ["office"])
        await desk.call()
        [stored] = desk.pool.states(AgentLimits)
        assert (stored.max_concurrent, stored.capabilities, stored.is_suspended) == (3, ("office",), False)
        acts = [(act.what, act.subject) for act in admin_acts(desk.pool.engine, tenant=ALL_TENANTS)]
        assert acts == [("agents update", "clerk")] * 2


async def test_a_version_is_added_validated_and_released(config: Config) -> None:
    with Pool.open(Path(str(config.pool.path))) as pool:
        pool.append(AgentVersion("clerk", "2", "callable", model="tests.gateway.live_desk:answer"))
        for number in range(40):
            pool.append(*done(number, OLD, number < 8), *done(number, NEW, number < 36))
    async with live(config) as desk:
        validated = await desk.client.post("/v1/agents/clerk/validations", json={"candidate": NEW})
        assert (validated.json()["verdict"], validated.json()["tasks"]) == ("pass", 40)
        assert validated.json()["gain"] == pytest.approx(0.7)
        started = await desk.client.post("/v1/releases", json={"incumbent": OLD, "candidate": NEW, **WHY})
        assert (started.status_code, started.json()["validation"][:5]) == (201, "pass:")


async def test_a_version_with_another_prompt_is_stored_and_recorded(tmp_path: Path) -> None:
    async with live(config_of(tmp_path / "pool.db")) as desk:
        desk.pool.append(AgentVersion("writer", "1", "endpoint", model="http://x/v1", model_name="small"))
        body = {"name": "terse", "base": "writer@1", "prompt": "Be terse.", "temperature": 0.2, "model": "large"}
        added = await desk.client.post("/v1/agents/writer/versions", json={**body, **WHY})
        assert (added.status_code, added.json()["id"], added.json()["model"]) == (201, "writer@terse", "large")
        again = await desk.client.post("/v1/agents/writer/versions", json={**body, **WHY})
        assert again.status_code == 201
        other = await desk.client.post("/v1/agents/writer/versions", json={**body, "prompt": "Be kind.", **WHY})
        assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")
        stored = next(version for version in desk.pool.agent_versions() if version.id == "writer@terse")
        assert (stored.model, stored.parent, stored.parameters) == ("http://x/v1", "writer@1", {"temperature": 0.2})


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "message"),
    [
        ("GET", "/v1/agents/nobody", None, 404, "unknown agent 'nobody'; in service: clerk, helper"),
        ("PATCH", "/v1/agents/nobody", {"is_suspended": True, **WHY}, 404, "unknown agent 'nobody'"),
        ("PATCH", "/v1/agents/clerk", WHY, 409, "at least one of environments"),
        ("PATCH", "/v1/agents/clerk", {"max_concurrent": 0, **WHY}, 400, "max_concurrent"),
        ("PATCH", "/v1/agents/clerk", {"is_suspended": True}, 400, "why"),
        (
            "POST",
            "/v1/agents/clerk/versions",
            {"name": "3", "prompt": "x", **WHY},
            409,
            "no effect on kind 'callable'",
        ),
        ("POST", "/v1/agents/clerk/versions", {"name": "a b", **WHY}, 409, "letters, digits"),
        ("POST", "/v1/agents/clerk/versions", {"name": "3", "base": OTHER, **WHY}, 400, "no version of the agent"),
        ("POST", "/v1/agents/clerk/validations", {"candidate": "clerk@9"}, 404, "clerk@9"),
        ("POST", "/v1/agents/clerk/validations", {"candidate": OTHER}, 400, "no version of the agent"),
    ],
)
async def test_impossible_changes_are_refused_with_the_reason(
    config: Config, method: str, target: str, body: dict[str, object] | None, status: int, message: str
) -> None:
    async with live(config) as desk:
        answer = await desk.client.request(method, target, json=body)
        assert answer.status_code == status, answer.text
        assert message in answer.json()["error"]["message"]
        assert not desk.pool.states(AgentLimits)


async def test_clients_may_not_look_and_operators_may_change(config: Config) -> None:
    with Pool.open(Path(str(config.pool.path))) as pool:
        client, operator = add_key(pool, "shop", "client"), add_key(pool, "shop", "operator")
    async with live(config) as desk:
        assert (await desk.client.get("/v1/agents", headers=bearer(client))).status_code == 403
        changed = await desk.client.patch(
            "/v1/agents/clerk", json={"max_concurrent": 2, **WHY}, headers=bearer(operator)
        )
        assert (
            changed.json()["limits"]["reason"] == f"updated by ana (key {operator.split('-')[1]}): tested by hand"
        )
