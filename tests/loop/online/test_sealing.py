"""Calls that are being answered: their episode cannot be sealed, and their decision cannot be rated yet."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loop.online.online_desk import Desk, open_desk
from upturn.dialects import Message, ModelRequest, RequestError, Text, dialect_of
from upturn.loop.online import Arrival, Client, Opinion, accept_feedback
from upturn.pool import Pool

CLIENT = Client("default")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Pool.open(tmp_path / "pool.db") as pool:
        yield open_desk(pool)


async def call(desk: Desk) -> str:
    """The decision of a call of episode ``run``, once it is answered."""
    request = ModelRequest("default", (Message("user", (Text("hello"),)),))
    async with desk.service.serve(Arrival(dialect_of("chat"), b"", request, CLIENT, {}, "run")) as live:
        async for _ in live.chunks():
            pass
        return live.decided.decision.id


async def started(desk: Desk) -> tuple["asyncio.Task[str]", asyncio.Event]:
    """A call whose upstream waits for the event."""
    gate = asyncio.Event()
    for upstream in desk.upstreams.values():
        upstream.gate = gate
    before = sum(len(upstream.calls) for upstream in desk.upstreams.values())
    running = asyncio.ensure_future(call(desk))
    while sum(len(upstream.calls) for upstream in desk.upstreams.values()) == before:
        await asyncio.sleep(0)
    return running, gate


async def test_an_episode_is_sealed_once_all_of_its_calls_have_ended(desk: Desk) -> None:
    first = await call(desk)
    running, gate = await started(desk)
    with pytest.raises(RequestError, match=r"calls of episode 'run' are being answered \(1\)") as caught:
        await desk.service.seal("run", CLIENT)
    assert (caught.value.status, caught.value.code, caught.value.retry_after_seconds) == (409, "episode_busy", 1)
    gate.set()
    second = await running
    sealed = await desk.service.seal("run", CLIENT)
    assert [stored.call.id for stored in sealed.calls] == [first, second]
    again = await desk.service.seal("run", CLIENT)
    assert again.trajectory_id == sealed.trajectory_id


async def test_no_answered_call_is_missing_in_the_sealed_episode(desk: Desk) -> None:
    answered = [await call(desk)]
    sealing = asyncio.ensure_future(desk.service.seal("run", CLIENT))
    for _ in range(40):
        try:
            answered.append(await call(desk))
        except RequestError as error:
            assert error.code == "episode_sealed"
    try:
        sealed = await sealing
    except RequestError as error:
        assert error.code == "episode_busy"
        sealed = await desk.service.seal("run", CLIENT)
    assert [stored.call.id for stored in sealed.calls] == answered


async def test_a_value_for_an_answer_that_has_not_ended_may_come_again(desk: Desk) -> None:
    running, gate = await started(desk)
    [live] = desk.service._live
    opinion = Opinion("decision", live.decided.decision.id, "success", 1.0)

    async def rate(client: Client) -> str:
        service = desk.service
        receipt = await accept_feedback(
            service.pool, service.log, opinion, client, is_answering=service.is_answering
        )
        return receipt.state

    with pytest.raises(RequestError, match="has not ended; give its value when it has") as caught:
        await rate(CLIENT)
    assert (caught.value.status, caught.value.code) == (409, "answer_not_ended")
    with pytest.raises(RequestError, match="no decision") as caught:
        await rate(Client("other"))
    assert caught.value.status == 404
    gate.set()
    await running
    assert await rate(CLIENT) == "stored"
