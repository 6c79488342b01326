"""Releases that are started by hand while a gateway serves: traffic, evidence, verdicts, and operators' acts."""

from pathlib import Path

import pytest

from tests.gateway.live_desk import NEW, OLD, OTHER, WHY, LiveDesk, config_of, live
from upturn.deployment import Override, rollback
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.access import admin_acts
from upturn.records import Release

BETTER = {OLD: 0.0, NEW: 1.0, OTHER: 1.0}
WORSE = {OLD: 1.0, NEW: 0.0, OTHER: 1.0}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pool.db"


async def until_decided(desk: LiveDesk, release: str, values: dict[str, float]) -> str:
    for _ in range(40):
        await desk.serve(10, values)
        await desk.gateway.background.judge()
        if (state := str((await desk.release(release))["state"])) != "canary":
            return state
    raise AssertionError("no verdict after 400 calls")


@pytest.mark.parametrize(("values", "state", "serving"), [(BETTER, "promoted", NEW), (WORSE, "rolled_back", OLD)])
async def test_a_release_gets_its_share_at_once_and_decides_by_itself(
    path: Path, values: dict[str, float], state: str, serving: str
) -> None:
    async with live(config_of(path)) as desk:
        assert set(await desk.serve(4, values)) == {OLD}
        release = await desk.start_release()
        assert await until_decided(desk, release, values) == state
        shown = await desk.release(release)
        assert (shown["evidence"]["candidate_successes"] > 0) == (state == "promoted")
        assert shown["evidence"]["missing"] == 0
        assert set(await desk.serve(4, values)) == {serving}
        arms = {decision.arm for decision in desk.pool.decisions(tenant="default") if decision.release == release}
        assert arms == {"candidate", "control"}
    async with live(config_of(path)) as desk:  # a new process
        assert set(await desk.serve(4, values)) == {serving}
        await desk.gateway.background.judge()
        assert (await desk.release(release))["state"] == state


async def test_the_agent_under_canary_has_a_reserved_share_of_a_route(path: Path) -> None:
    async with live(config_of(path)) as desk:
        await desk.serve(60, {OLD: 0.0, NEW: 0.0, OTHER: 1.0}, "default")
        await desk.start_release()
        await desk.call("default")
        decision = list(desk.pool.decisions(tenant="default"))[-1]
        chances = {option.agent_version: option.probability for option in decision.alternatives}
        assert chances == pytest.approx({OLD: 0.125, NEW: 0.125, OTHER: 0.75})


async def test_an_episode_stays_with_its_version_and_is_one_observation(path: Path) -> None:
    async with live(config_of(path)) as desk:
        release = await desk.start_release()
        for number in range(12):
            episode = f"session-{number}"
            versions = {(await desk.call(episode=episode))["x-upturn-agent-version"] for _ in range(3)}
            assert len(versions) == 1
            await desk.rate(1.0, episode_id=episode)
        await desk.gateway.background.judge()
        evidence = (await desk.release(release))["evidence"]
        assert evidence["candidate_tasks"] + evidence["control_tasks"] == 12
        assert evidence["missing"] == 0


async def test_an_operators_rollback_is_in_effect_before_the_next_call_and_stays(path: Path) -> None:
    async with live(config_of(path)) as desk:
        release = await desk.start_release()
        await desk.serve(30, BETTER)
        assert (await desk.act(release, "rollback")).json()["state"] == "rolled_back"
        assert set(await desk.serve(20, BETTER)) == {OLD}
        await desk.gateway.background.judge()
        shown = await desk.release(release)
        assert (shown["state"], shown["evidence"]) == ("rolled_back", None)
        assert shown["operators"].endswith("rolled back by ana (a caller on this machine): tested by hand")
        again = await desk.act(release, "promote")
        assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
        acts = [(act.what, act.subject) for act in admin_acts(desk.pool.engine, tenant=ALL_TENANTS)]
        assert acts == [("releases start", NEW), ("releases rollback", release)]


async def test_an_act_of_another_process_takes_effect_with_the_next_look(path: Path) -> None:
    async with live(config_of(path)) as desk:
        release = await desk.start_release()
        with Pool.open(path, beside=True) as other:
            other.change(Release, lambda states: rollback(states.all()[0], Override("ben", "broken")))
        desk.gateway.background.sync()
        assert set(await desk.serve(20, BETTER)) == {OLD}
        await desk.gateway.background.judge()
        assert (await desk.release(release))["state"] == "rolled_back"


async def test_a_held_release_is_not_promoted_until_it_is_resumed(path: Path) -> None:
    async with live(config_of(path)) as desk:
        release = await desk.start_release()
        assert (await desk.act(release, "hold")).json()["state"] == "held"
        for _ in range(12):
            await desk.serve(10, BETTER)
            await desk.gateway.background.judge()
        shown = await desk.release(release)
        assert shown["state"] == "held"
        assert shown["evidence"]["reason"].startswith("held by an operator; otherwise: shown better")
        assert (await desk.act(release, "resume")).json()["state"] == "canary"
        assert await until_decided(desk, release, BETTER) == "promoted"


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "message"),
    [
        ("GET", "/v1/releases/none", None, 404, "unknown release 'none'; in this pool: none"),
        ("POST", "/v1/releases/none/hold", WHY, 404, "unknown release 'none'"),
        ("POST", "/v1/releases/none/delete", WHY, 400, "'promote', 'hold', 'resume' or 'rollback'"),
        ("POST", "/v1/releases/none/hold", {"why": " "}, 400, "why"),
        ("POST", "/v1/releases", {"incumbent": OLD, "candidate": "clerk@9", **WHY}, 404, "clerk@9"),
        ("POST", "/v1/releases", {"incumbent": OLD, "candidate": NEW, **WHY}, 409, "did not pass validation"),
    ],
)
async def test_impossible_acts_are_refused_with_the_reason(
    path: Path, method: str, target: str, body: dict[str, str] | None, status: int, message: str
) -> None:
    async with live(config_of(path)) as desk:
        answer = await desk.client.request(method, target, json=body)
        assert answer.status_code == status, answer.text
        assert message in answer.json()["error"]["message"]
        assert not desk.pool.states(Release)
        assert not admin_acts(desk.pool.engine, tenant=ALL_TENANTS)
