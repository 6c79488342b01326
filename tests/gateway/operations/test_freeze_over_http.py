"""The switch that stops the router from learning: over HTTP, by another process, by the configuration."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.live_desk import OLD, OTHER, WHY, LiveDesk, config_of, live
from upturn.config import Config
from upturn.pool import ALL_TENANTS, ledger_problems
from upturn.pool.access import admin_acts, current_freeze, freeze, unfreeze

VALUES = {OLD: 1.0, OTHER: 0.0}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return config_of(tmp_path / "pool.db")


async def state(desk: LiveDesk) -> dict[str, Any]:
    return dict((await desk.client.get("/v1/router/state?family=general")).json())


async def chances(desk: LiveDesk) -> dict[str, float]:
    """The probability of each version for the next call."""
    [family] = (await state(desk))["families"]
    return {entry["version"]: entry["probability"] for entry in family["candidates"]}


async def test_a_frozen_router_keeps_its_probabilities_also_after_a_restart(config: Config) -> None:
    async with live(config) as desk:
        await desk.serve(6, VALUES, "default")
        frozen = await desk.client.post("/v1/router/freeze", json=WHY)
        assert frozen.json() == {"is_frozen": True}
        before = await chances(desk)
        await desk.serve(10, VALUES, "default")
        assert await chances(desk) == before
        shown = (await state(desk))["frozen"]
        assert (shown["who"], shown["waiting"]) == ("ana (a caller on this machine)", 20)
        # Evidence is stored, and reports show it.
        agents = [(await desk.client.get(f"/v1/agents/{name}")).json() for name in ("clerk", "helper")]
        assert sum(row["outcomes"] for agent in agents for row in agent["profile"]) == 16
    async with live(config) as desk:
        assert await chances(desk) == before
        await desk.client.post("/v1/router/unfreeze", json=WHY)
        after = await chances(desk)
        assert after != before
        assert (await state(desk))["frozen"] is None
        acts = [act.what for act in admin_acts(desk.pool.engine, tenant=ALL_TENANTS)]
        assert acts == ["router freeze", "router unfreeze"]
        assert list(ledger_problems(desk.pool.engine)) == []
    async with live(config) as desk:  # what was learned is the same as without a freeze
        assert await chances(desk) == after


async def test_an_act_of_another_process_holds_at_once(config: Config) -> None:
    async with live(config) as desk:
        await desk.serve(6, VALUES, "default")
        freeze(desk.pool.location, who="ben", why="audit", when=0.0)
        before = await chances(desk)
        await desk.serve(4, VALUES, "default")
        assert await chances(desk) == before
        assert unfreeze(desk.pool.location, who="ben", why="done", when=1.0)
        assert not unfreeze(desk.pool.location, who="ben", why="done", when=1.0)
        desk.gateway.background.learn()
        assert await chances(desk) != before


async def test_a_long_backlog_is_learned_in_parts_between_calls(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.gateway.background.RECORDS_AT_ONCE", 5)
    async with live(config) as desk:
        await desk.serve(2, VALUES, "default")
        freeze(desk.pool.location, who="ben", why="audit", when=0.0)
        await desk.serve(8, VALUES, "default")
        await desk.gateway.background.learn_all()  # ends, although the router stays where it is
        before = await chances(desk)
        unfreeze(desk.pool.location, who="ben", why="done", when=1.0)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        await desk.gateway.background.learn_all()
        counting.cancel()
        assert turns >= 4
        after = await chances(desk)
        assert after != before
    async with live(config) as desk:  # nothing was left out
        assert await chances(desk) == after


async def test_freezing_again_changes_nothing(config: Config) -> None:
    async with live(config) as desk:
        await desk.client.post("/v1/router/freeze", json=WHY)
        first = current_freeze(desk.pool.engine)
        await desk.serve(2, VALUES, "default")
        await desk.client.post("/v1/router/freeze", json={"why": "again"})
        assert current_freeze(desk.pool.engine) == first


async def test_the_configuration_freezes_and_an_operator_cannot_undo_it(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    async with live(config_of(path)) as desk:
        await desk.serve(6, VALUES, "default")
        before = await chances(desk)
    async with live(config_of(path, routing={"frozen": True})) as desk:
        await desk.serve(4, VALUES, "default")
        assert await chances(desk) == before
        assert (await state(desk))["frozen"]["who"] == "configuration"
        refused = await desk.client.post("/v1/router/unfreeze", json=WHY)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    async with live(config_of(path)) as desk:
        assert await chances(desk) != before
        await desk.client.post("/v1/router/freeze", json=WHY)
    async with live(config_of(path)) as desk:  # an operator's act stays
        assert (await state(desk))["frozen"] is not None
