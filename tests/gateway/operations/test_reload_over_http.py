"""A reload of the configuration while a gateway serves: what applies, what is refused, and what goes on."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from tests.gateway.live_desk import LiveDesk, live
from tests.gateway.test_access_over_http import add_key, bearer
from tests.models.upstreams.raw_server import Visit, chat_answer, raw_server
from upturn.gateway import Source
from upturn.loop.trainers import load_full_config
from upturn.models import LocalModel, load_local
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.access import admin_acts

BASE = """
[pool]
path = "{folder}/pool.db"
[loop]
train = []
[[agents]]
name = "clerk"
kind = "callable"
import_path = "tests.gateway.live_desk:answer"
"""
HELPER = """
[[agents]]
name = "helper"
kind = "callable"
import_path = "tests.gateway.live_desk:answer_when_open"
"""
FINE = """
[[gateway.routes]]
name = "support"
agents = ["clerk"]
[routing]
policy = "uniform"
[canary]
alpha = 0.02
"""


class Served:
    """A gateway with its configuration file."""

    def __init__(self, desk: LiveDesk, file: Path) -> None:
        self.desk = desk
        self.file = file

    def write(self, *parts: str) -> None:
        """Changes the file."""
        self.file.write_text("".join(parts).format(folder=self.file.parent), encoding="utf-8")

    async def names(self) -> list[str]:
        """The names that clients may use."""
        return [entry["id"] for entry in (await self.desk.client.get("/v1/models")).json()["data"]]


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Served]:
    """A gateway of clerk and helper."""
    file = folder / "upturn.toml"
    file.write_text((BASE + HELPER).format(folder=folder), encoding="utf-8")
    async with live(load_full_config(file, {}), Source(file, {})) as desk:
        yield Served(desk, file)


async def test_a_new_local_model_is_loaded_when_the_reload_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(name: str, **options: Any) -> LocalModel:
        loaded.append(name)
        return load_local(name, **options)

    monkeypatch.setattr("upturn.gateway.upstreams.load_local", load)
    async with served(tmp_path) as server:
        server.write(BASE, HELPER, '[[agents]]\nname = "nano"\nkind = "local_model"\nmodel = "nano"\n')
        assert (await server.desk.client.post("/v1/admin/reload")).json()["added"] == ["nano"]
        assert loaded == ["nano"]


async def test_agents_routes_policy_and_canary_settings_apply(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        assert await server.names() == ["default", "clerk", "helper", "clerk@base", "helper@base"]
        third = HELPER.replace("helper", "third").replace("answer_when_open", "answer")
        server.write(BASE, third, FINE)
        answer = await server.desk.client.post("/v1/admin/reload", json={"why": "a third agent"})
        assert answer.status_code == 200, answer.text
        reloaded = answer.json()
        assert (reloaded["added"], reloaded["removed"], reloaded["changed"]) == (["third"], ["helper"], [])
        assert reloaded["settings"] == ["canary.alpha", "gateway.routes"]
        assert reloaded["is_policy_changed"]
        assert await server.names() == ["support", "clerk", "third", "clerk@base", "third@base"]
        assert (await server.desk.call("third"))["x-upturn-agent-version"] == "third@base"
        assert (await server.desk.client.get("/v1/router/state")).json()["policy"] == "uniform"
        assert server.desk.gateway.background.canary.alpha == 0.02
        [act] = admin_acts(server.desk.pool.engine, tenant=ALL_TENANTS)
        assert (act.what, act.subject, act.why) == ("reload", reloaded["config_hash"], "a third agent")
        again = await server.desk.client.post("/v1/admin/reload")
        assert again.json()["summary"] == "nothing has changed"


async def test_rules_for_families_apply_from_the_next_call_on(tmp_path: Path) -> None:
    rule = '[[gateway.families]]\nfamily = "greeting"\ntext = "hello"\n'
    call = {"model": "clerk", "messages": [{"role": "user", "content": "hello"}]}
    families = []
    async with served(tmp_path) as server:
        for parts in ((BASE, HELPER), (BASE, HELPER, rule)):
            server.write(*parts)
            await server.desk.client.post("/v1/admin/reload", json={"why": "families"})
            answer = await server.desk.client.post("/v1/chat/completions", json=call)
            families.append(answer.headers["x-upturn-family"])
    assert families == ["general", "greeting"]


@pytest.mark.parametrize(
    ("parts", "messages"),
    [
        ((BASE, "[routing]\nfloor = 3\npolcy = 1\n"), ["routing.floor", "routing.polcy"]),
        ((BASE, HELPER, "not TOML"), ["is not TOML"]),
        ((BASE, "[[gateway.routes]]\nname = 'a'\nagents = ['nobody']\n"), ["nobody"]),
        ((BASE.replace("live_desk:answer", "live_desk:none"), FINE), ["agents[0].import_path"]),
        (
            (BASE.replace("pool.db", "other.db"), "[gateway]\nport = 9\nmax_body_bytes = 5\n", FINE),
            ["pool.path was ", "gateway.port was 8000 and is now 9", "gateway.max_body_bytes was 32000000"],
        ),
        ((BASE.replace("callable", "rule_based"),), ["'clerk' was of kind 'callable' and is now 'rule_based'"]),
    ],
)
async def test_a_wrong_file_is_refused_as_a_whole_and_the_old_one_serves(
    tmp_path: Path, parts: tuple[str, ...], messages: list[str]
) -> None:
    async with served(tmp_path) as server:
        before = await server.names()
        server.write(*parts)
        answer = await server.desk.client.post("/v1/admin/reload")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "config_refused"), answer.text
        assert [text for text in messages if text not in answer.json()["error"]["message"]] == []
        assert await server.names() == before
        await server.desk.call("helper")
        assert not admin_acts(server.desk.pool.engine, tenant=ALL_TENANTS)


async def test_a_call_in_flight_ends_with_the_agent_that_a_reload_removes(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        from tests.gateway.live_desk import OPEN

        OPEN.clear()
        try:
            call = asyncio.ensure_future(server.desk.call("helper"))
            while not server.desk.gateway.service.router.load.in_flight("helper"):
                await asyncio.sleep(0)
            server.write(BASE)
            assert (await server.desk.client.post("/v1/admin/reload")).json()["removed"] == ["helper"]
        finally:
            OPEN.set()
        assert (await call)["x-upturn-agent-version"] == "helper@base"
        body = {"model": "helper", "messages": [{"role": "user", "content": "again"}]}
        assert (await server.desk.client.post("/v1/chat/completions", json=body)).status_code == 404


async def test_a_key_in_a_file_is_read_again_and_never_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(visit: Visit) -> None:
        await visit.json(chat_answer())

    (tmp_path / "key").write_text("sk-first\n", encoding="utf-8")
    file = tmp_path / "upturn.toml"
    async with raw_server(answer) as vendor:
        far = f"""
        [[agents]]
        name = "far"
        kind = "endpoint"
        url = "{vendor.url}"
        model = "m"
        api_key_file = "key"
        """
        file.write_text(BASE.format(folder=tmp_path) + far, encoding="utf-8")
        async with live(load_full_config(file, {}), Source(file, {})) as desk:
            await desk.call("far")
            assert (await desk.client.post("/v1/admin/reload")).json()["summary"] == "nothing has changed"
            (tmp_path / "key").write_text("sk-second", encoding="utf-8")
            reloaded = await desk.client.post("/v1/admin/reload")
            assert (reloaded.json()["keys"], reloaded.json()["summary"]) == (["far"], "API key of far")
            await desk.call("far")
            (tmp_path / "key").unlink()
            refused = await desk.client.post("/v1/admin/reload")
            assert refused.status_code == 409
            assert "agents[1].api_key_file of agent 'far'" in refused.json()["error"]["message"]
            await desk.call("far")
            shown = [(await desk.client.get(path)).text for path in ("/v1/router/state", "/v1/agents", "/metrics")]
    sent = [visit.headers["authorization"] for visit in vendor.visits]
    assert sent == ["Bearer sk-first", "Bearer sk-second", "Bearer sk-second"]
    assert "sk-" not in "".join([*shown, reloaded.text, refused.text, caplog.text])
    assert "can be read by every user" in caplog.text


async def test_budgets_without_a_price_are_warned_of_at_the_start_and_at_a_reload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        admin = add_key(pool, "shop", "admin", usd_per_day=5.0)
    async with served(tmp_path) as server:
        assert "do not count the calls and tasks of 'clerk', 'helper'" in caplog.text
        priced = "[prices.ours]\ninput = 1\noutput = 2\n"
        server.write(BASE, 'price = "ours"\n', HELPER, priced)
        reloaded = (await server.desk.client.post("/v1/admin/reload", headers=bearer(admin))).json()
        [warning] = reloaded["warnings"]
        assert "do not count the calls and tasks of 'helper':" in warning
        server.write(BASE, 'price = "ours"\n', HELPER, 'price = "ours"\n', priced)
        again = await server.desk.client.post("/v1/admin/reload", headers=bearer(admin))
        assert again.json()["warnings"] == []


async def test_the_release_of_a_removed_agent_is_held_and_goes_on_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as server:
        release = await server.desk.start_release()
        server.write(HELPER.join([BASE.partition("[[agents]]")[0], ""]))
        reloaded = (await server.desk.client.post("/v1/admin/reload", json={"why": "the clerk fails"})).json()
        assert (reloaded["removed"], reloaded["held"]) == (["clerk"], [release])
        assert reloaded["summary"] == f"agent clerk removed, release {release} held"
        shown = await server.desk.release(release)
        assert shown["state"] == "held"
        assert "agent 'clerk' was removed from the configuration: the clerk fails" in shown["operators"]
        await server.desk.call("helper")
        server.write(BASE, HELPER)
        assert (await server.desk.client.post("/v1/admin/reload")).json()["held"] == []
        assert (await server.desk.release(release))["state"] == "held"  # until an operator has looked
        assert (await server.desk.act(release, "resume")).json()["state"] == "canary"
    file = tmp_path / "upturn.toml"
    file.write_text(HELPER.join([BASE.partition("[[agents]]")[0], ""]).format(folder=tmp_path), encoding="utf-8")
    async with live(load_full_config(file, {}), Source(file, {})) as desk:
        assert f"release {release} waits: agent 'clerk' is not configured" in caplog.text
        assert (await desk.release(release))["state"] == "canary"


async def test_a_decided_release_of_a_removed_agent_stays_decided(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        release = await server.desk.start_release()
        await server.desk.act(release, "rollback")
        server.write(HELPER.join([BASE.partition("[[agents]]")[0], ""]))
        assert (await server.desk.client.post("/v1/admin/reload")).json()["held"] == []
        assert (await server.desk.release(release))["state"] == "rolled_back"


async def test_limits_of_tenants_and_the_retention_apply(tmp_path: Path) -> None:
    body = {"model": "clerk", "messages": [{"role": "user", "content": "do it"}]}
    async with served(tmp_path) as server:
        await server.desk.call("clerk")
        limited = '[gateway]\nkeep_days = 3.0\n[[access.tenants]]\nname = "default"\nrequests_per_minute = 1\n'
        server.write(BASE, HELPER, limited)
        reloaded = (await server.desk.client.post("/v1/admin/reload")).json()
        assert reloaded["settings"] == ["access.tenants", "gateway.keep_days"]
        statuses = [
            (await server.desk.client.post("/v1/chat/completions", json=body)).status_code for _ in range(2)
        ]
        assert statuses == [200, 429]
        server.write(BASE, HELPER)
        assert (await server.desk.client.post("/v1/admin/reload")).status_code == 200
        await server.desk.call("clerk")


async def test_only_an_administrator_reloads(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        keys = [add_key(pool, "shop", role) for role in ("operator", "admin")]
    async with served(tmp_path) as server:
        answers = [await server.desk.client.post("/v1/admin/reload", headers=bearer(key)) for key in keys]
        assert [answer.status_code for answer in answers] == [403, 200]
        acts = (await server.desk.client.get("/v1/admin/acts", headers=bearer(keys[1]))).json()["data"]
        assert acts[-1]["who"] == f"key {keys[1].split('-')[1]}"


async def test_without_a_file_there_is_nothing_to_reload(tmp_path: Path) -> None:
    file = tmp_path / "upturn.toml"
    file.write_text(BASE.format(folder=tmp_path), encoding="utf-8")
    async with live(load_full_config(file, {})) as desk:
        answer = await desk.client.post("/v1/admin/reload")
        assert answer.status_code == 409
        assert "started without a configuration file" in answer.json()["error"]["message"]


async def test_sighup_reloads_and_a_wrong_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as server:
        app = server.desk.gateway.app
        assert isinstance(app, FastAPI)
        async with app.router.lifespan_context(app):
            await asyncio.sleep(0)  # the handler is set with the first step of the background
            for parts, message in (((BASE, "oops"), "is not TOML"), ((BASE,), "agent helper removed")):
                server.write(*parts)
                os.kill(os.getpid(), signal.SIGHUP)
                while message not in caplog.text:
                    await asyncio.sleep(0.001)
        assert await server.names() == ["default", "clerk", "clerk@base"]
