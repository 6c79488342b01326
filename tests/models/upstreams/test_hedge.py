"""A second attempt beside a slow one: when it begins, which answer is used, and what becomes of the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.models.upstreams.raw_server import (
    CHAT_END,
    SSE_HEAD,
    Visit,
    call_of,
    chat_answer,
    chat_chunk,
    raw_server,
)
from upturn.config import UpstreamConfig
from upturn.errors import ConfigError
from upturn.models.upstreams import CallOutcome, Chunk, Endpoint, EndpointUpstream, UpstreamCall, UpstreamError
from upturn.models.upstreams.upstream import Attempt, Verdict

REFUSED = UpstreamError("refused", kind="status", status=400)
BROKEN = UpstreamError("broken", kind="timeout")
ALSO_BROKEN = UpstreamError("also broken", kind="timeout")


class Answer:
    """An answer that says which attempt it is of."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def chunks(self) -> AsyncIterator[Chunk]:
        yield Chunk(str(self.number).encode(), is_end=True)

    @property
    def outcome(self) -> CallOutcome:
        return CallOutcome()

    @property
    def verdict(self) -> Verdict:
        return "answered"


class Server:
    """A sender whose attempts end when a test says so, and a clock that a test moves."""

    def __init__(self, **settings: Any) -> None:
        settings = {"hedge_after_seconds": 2.0, "retries": 0, **settings}
        self.settings = UpstreamConfig(**settings)
        self.ends: list[asyncio.Future[None]] = []
        """By attempt; without an exception it answers."""
        self.closed: list[int] = []
        self.waits: list[tuple[float, asyncio.Event]] = []
        self.upstream = EndpointUpstream(Endpoint("http://unused", "theirs", self.settings), sleep=self.sleep)
        self.call = UpstreamCall(**{**_fields(call_of()), "sender": self})

    async def sleep(self, seconds: float) -> None:
        self.waits.append((seconds, asyncio.Event()))
        await self.waits[-1][1].wait()

    @asynccontextmanager
    async def open(self, _: Endpoint, _call: UpstreamCall, _deadline: float) -> AsyncIterator[Attempt]:
        number = len(self.ends)
        self.ends.append(asyncio.get_running_loop().create_future())
        try:
            await self.ends[number]
            yield Answer(number)
        finally:
            self.closed.append(number)

    def begin(self) -> "asyncio.Task[int]":
        """Makes the call; the result is the number of the attempt that answered."""

        async def answered() -> int:
            async with self.upstream.open(self.call) as exchange:
                content = [chunk.content async for chunk in exchange.chunks()]
                self.closed.append(-1)
            return int(content[0])

        return asyncio.ensure_future(answered())

    async def attempts(self, count: int) -> None:
        """Returns when so many attempts have begun."""
        while len(self.ends) < count:
            await asyncio.sleep(0)

    async def pass_delay(self) -> None:
        """Moves the clock beyond the delay of the hedge."""
        while not self.waits:
            await asyncio.sleep(0)
        assert self.waits[-1][0] == 2.0
        self.waits[-1][1].set()

    async def both(self) -> "asyncio.Task[int]":
        """A call with two attempts at work."""
        task = self.begin()
        await self.pass_delay()
        await self.attempts(2)
        return task

    @property
    def hedge(self) -> tuple[str, int]:
        return self.call.hedge.answered_by, self.call.hedge.unanswered


def _fields(call: UpstreamCall) -> dict[str, Any]:
    return {name: getattr(call, name) for name in ("body", "request", "dialect", "answer_id")}


async def settle() -> None:
    """Lets everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_an_answer_in_time_has_no_second_attempt() -> None:
    server = Server()
    task = server.begin()
    await server.attempts(1)
    server.ends[0].set_result(None)
    assert await task == 0
    assert (len(server.ends), server.hedge) == (1, ("", 0))


async def test_without_the_setting_nothing_waits() -> None:
    server = Server(hedge_after_seconds=None)
    task = server.begin()
    await server.attempts(1)
    await settle()
    server.ends[0].set_result(None)
    assert (await task, server.waits) == (0, [])


@pytest.mark.parametrize("winner", [0, 1])
async def test_the_first_to_answer_is_used_and_the_other_is_closed_before(winner: int) -> None:
    server = Server()
    task = await server.both()
    server.ends[winner].set_result(None)
    assert await task == winner
    assert server.closed == [1 - winner, -1, winner]  # -1: the answer was read
    assert server.ends[1 - winner].cancelled()
    assert server.hedge == (("first", "second")[winner], 1)


async def test_of_two_answers_at_the_same_time_the_first_is_used() -> None:
    server = Server()
    task = await server.both()
    for end in server.ends:
        end.set_result(None)
    assert await task == 0
    assert (sorted(server.closed), server.hedge) == ([-1, 0, 1], ("first", 1))


@pytest.mark.parametrize("failing", [0, 1])
async def test_a_failure_leaves_the_other_attempt_alone(failing: int) -> None:
    server = Server()
    task = await server.both()
    server.ends[failing].set_exception(BROKEN)
    await settle()
    server.ends[1 - failing].set_result(None)
    assert await task == 1 - failing
    assert server.hedge == (("second", "first")[failing], 0)  # what failed before its answer costs nothing


async def test_the_error_is_that_of_the_attempt_which_failed_last() -> None:
    server = Server()
    task = await server.both()
    server.ends[1].set_exception(BROKEN)
    await settle()
    server.ends[0].set_exception(ALSO_BROKEN)
    with pytest.raises(UpstreamError, match="also broken"):
        await task
    assert server.hedge == ("none", 0)


async def test_a_refused_request_ends_both_attempts() -> None:
    server = Server()
    task = await server.both()
    server.ends[1].set_exception(REFUSED)
    with pytest.raises(UpstreamError, match="refused"):
        await task
    assert server.ends[0].cancelled()


async def test_a_client_that_leaves_ends_both_attempts() -> None:
    server = Server()
    task = await server.both()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [end.cancelled() for end in server.ends] == [True, True]
    assert server.hedge == ("none", 1)  # one is the call itself, the other the second attempt
    assert not server.upstream.limit.is_full


async def test_a_call_is_hedged_once_and_its_retries_are_not() -> None:
    server = Server(retries=1)
    task = await server.both()
    for end in server.ends:
        end.set_exception(UpstreamError("down", kind="status", status=503))
    while len(server.waits) < 2:  # before the retry
        await asyncio.sleep(0)
    server.waits[1][1].set()
    await server.attempts(3)
    await settle()
    server.ends[2].set_result(None)
    assert (await task, len(server.waits), server.hedge) == (2, 2, ("none", 0))


async def test_a_second_attempt_needs_a_free_place_and_holds_it_until_one_answers() -> None:
    server = Server(max_concurrent=2)
    task, other = await server.both(), Server(max_concurrent=2)
    full = [server.upstream.limit.is_full]
    server.ends[1].set_result(None)
    await task
    assert [*full, server.upstream.limit.is_full] == [True, False]
    async with other.upstream.limit.place():
        alone = other.begin()
        await other.pass_delay()
        await settle()
        assert len(other.ends) == 1
        other.ends[0].set_result(None)
        assert (await alone, other.hedge) == (0, ("", 0))


async def test_second_attempts_count_as_retries() -> None:
    server = Server(retry_share=0.0)
    for _ in range(10):  # retries that are always allowed
        assert server.upstream._budget.take()
    task = server.begin()
    await server.pass_delay()
    await settle()
    assert len(server.ends) == 1
    server.ends[0].set_result(None)
    assert await task == 0


async def test_a_server_that_fails_gets_no_second_attempt() -> None:
    server = Server(breaker_failures=1)
    task = server.begin()
    await server.attempts(1)
    server.upstream.breaker.admit().report("failed")  # another call
    await server.pass_delay()
    await settle()
    assert len(server.ends) == 1
    server.ends[0].set_result(None)
    assert await task == 0


async def test_over_http_the_slow_connection_is_closed_and_the_other_answer_streamed() -> None:
    came, left = asyncio.Event(), asyncio.Event()

    async def answer(visit: Visit) -> None:
        if visit.number == 0:
            await visit.send(SSE_HEAD)  # a head, but no token
            came.set()
            await visit.departure()
            left.set()
            return
        await visit.send(SSE_HEAD)
        await visit.part(chat_chunk("hello"))
        await visit.part(CHAT_END)
        await visit.part(b"")

    async def until_it_came(_: float) -> None:
        await came.wait()

    async with raw_server(answer) as server:
        settings = UpstreamConfig(hedge_after_seconds=1.0)
        upstream = EndpointUpstream(Endpoint(server.url, "theirs", settings), sleep=until_it_came)
        call = call_of(is_streamed=True)
        async with upstream.open(call) as exchange:
            content = b"".join([chunk.content async for chunk in exchange.chunks()])
            outcome = exchange.outcome
        await left.wait()
        await upstream.close()
    assert b"hello" in content
    assert outcome.usage is not None
    assert outcome.usage.output == 2
    assert (call.hedge.answered_by, call.hedge.unanswered, len(server.visits)) == ("second", 1, 2)


async def test_a_whole_answer_is_hedged_too() -> None:
    came = asyncio.Event()

    async def answer(visit: Visit) -> None:
        if visit.number == 0:
            came.set()
            await visit.departure()
        else:
            await visit.json(chat_answer("quick"))

    async def until_it_came(_: float) -> None:
        await came.wait()

    async with raw_server(answer) as server:
        settings = UpstreamConfig(hedge_after_seconds=1.0)
        upstream = EndpointUpstream(Endpoint(server.url, "theirs", settings), sleep=until_it_came)
        async with upstream.open(call_of()) as exchange:
            [chunk] = [chunk async for chunk in exchange.chunks()]
        await upstream.close()
    assert b"quick" in chunk.content


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"hedge_after_seconds": 120.0},
            "hedge_after_seconds=120.0 is never reached with timeouts.first_token=120",
        ),
        ({"hedge_after_seconds": 1.0, "max_concurrent": 1}, "needs max_concurrent of at least 2, got 1"),
    ],
)
def test_a_setting_without_effect_is_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        UpstreamConfig(**settings)
