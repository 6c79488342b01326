"""Episodes that nobody seals: found by their last call, sealed on demand, and before their contents are deleted."""

from pathlib import Path
from time import time

from tests.loop.online.online_desk import Desk, open_desk
from upturn.dialects import Message, ModelRequest, RequestError, Text, dialect_of
from upturn.loop.online import Arrival, Client, seal_idle, seal_rated
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.calls import IdleEpisode, delete_contents, idle_episodes
from upturn.records import Feedback

CLIENT = Client("default")


async def call(desk: Desk, episode: str, client: Client = CLIENT) -> str:
    """The decision of an answered call."""
    request = ModelRequest("default", (Message("user", (Text("hello"),)),))
    async with desk.service.serve(Arrival(dialect_of("chat"), b"", request, client, {}, episode)) as live:
        async for _ in live.chunks():
            pass
        return live.decided.decision.id


def rating(name: str, kind: str, subject: str, tenant: str = "default") -> Feedback:
    return Feedback(name, kind, subject, "thumbs", 1.0, tenant)  # type: ignore[arg-type]


async def test_idle_episodes_are_those_without_a_seal_whose_last_call_is_old(desk: Desk) -> None:
    await call(desk, "a")
    await call(desk, "b")
    await call(desk, "a", Client("other", "k1"))
    await desk.service.seal("b", Client("default"))
    engine = desk.pool.engine
    assert idle_episodes(engine, tenant="default", before=time() + 1) == [IdleEpisode("default", "a", "")]
    assert idle_episodes(engine, tenant="default", before=time() - 60) == []
    everyone = idle_episodes(engine, tenant=ALL_TENANTS, before=time() + 1)
    assert everyone == [IdleEpisode("default", "a", ""), IdleEpisode("other", "k1/a", "k1")]


async def test_rated_episodes_have_feedback_on_them_or_on_a_call_of_their_tenant(desk: Desk) -> None:
    for name in ("a", "b", "c"):
        last = await call(desk, name)
    desk.pool.append(
        rating("1", "episode", "a"), rating("2", "decision", last), rating("3", "episode", "b", "other")
    )
    rated = idle_episodes(desk.pool.engine, tenant="default", before=time() + 1, is_rated=True)
    assert [idle.episode for idle in rated] == ["a", "c"]


async def test_a_service_seals_rated_episodes_and_refuses_their_later_calls(desk: Desk) -> None:
    keyed = Client("default", "k1")
    await call(desk, "a", keyed)
    await call(desk, "b")
    desk.pool.append(rating("1", "episode", "k1/a"))
    assert await seal_rated(desk.pool, desk.service.seal, before=time() + 1) == 1
    assert await seal_rated(desk.pool, desk.service.seal, before=time() + 1) == 0
    assert [row.task_id for row in desk.pool.selected(tenant="default")] == ["episode:default:k1/a"]
    await call(desk, "b")
    try:
        await call(desk, "a", keyed)
    except RequestError as error:
        assert error.code == "episode_sealed"
    else:
        raise AssertionError("a sealed episode accepts no call")


async def test_idle_episodes_of_a_tenant_are_sealed_unless_their_contents_are_deleted(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        desk = open_desk(pool)
        for name in ("a", "b"):
            await call(desk, name)
        await call(desk, "c", Client("other"))
        await desk.service.log.drain()
        assert seal_idle(pool, tenant="default", before=time() - 60) == (0, 0)
        assert seal_idle(pool, tenant="default", before=time() + 1) == (2, 0)
        assert len(pool.selected(tenant="default")) == 2
        assert pool.selected(tenant="other") == []
        delete_contents(pool, time() + 1)
        assert seal_idle(pool, tenant=ALL_TENANTS, before=time() + 1) == (0, 1)
