"""Second tries of a call: which failures, how often, after how long, and what the breaker makes of them."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.models.upstreams.raw_server import (
    CHAT_END,
    SSE_HEAD,
    Visit,
    call_of,
    chat_answer,
    chat_chunk,
    chunks_of,
    raw_server,
    upstream_at,
)
from upturn.config import UpstreamConfig
from upturn.models.upstreams import UpstreamError
from upturn.models.upstreams.endpoint_client import retry_after

BUSY = "429 Too Many Requests"
DOWN = "503 Service Unavailable"


def visits(
    statuses: Sequence[str],
    headers: Sequence[str] = (),
    calls: int = 1,
    waits: list[float] | None = None,
    **settings: Any,
) -> tuple[int, list[Any]]:
    """The number of requests, and the result of each call: None or its error. ``waits`` gets those before retries,
    which take no time here."""

    async def wait(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    async def answer(visit: Visit) -> None:
        if visit.number < len(statuses):
            await visit.json({"error": {"message": "no"}}, statuses[visit.number], *headers)
        else:
            await visit.json(chat_answer())

    async def run() -> tuple[int, list[Any]]:
        results: list[Any] = []
        async with raw_server(answer) as server, upstream_at(server, UpstreamConfig(**settings)) as upstream:
            upstream._sleep = wait
            for _ in range(calls):
                try:
                    await chunks_of(upstream, call_of())
                    results.append(None)
                except UpstreamError as exc:
                    results.append(exc)
            assert server.connections == 1  # also after errors, the connection is used again
            return len(server.visits), results

    return asyncio.run(run())


def test_a_failure_that_may_pass_is_tried_again_and_a_refused_request_is_not() -> None:
    assert visits([DOWN]) == (2, [None])
    count, (error,) = visits(["400 Bad Request"])
    assert (count, error.status, error.is_fault_of_request) == (1, 400, True)
    count, (error,) = visits([DOWN, BUSY, DOWN], retries=1)
    assert (count, error.status) == (2, 429)


def test_retry_after_is_waited_for_unless_it_is_long() -> None:
    waits: list[float] = []
    assert visits([BUSY], ["retry-after: 1"], waits=waits) == (2, [None])
    assert waits == [1.0]
    count, (error,) = visits([BUSY], ["retry-after: 60"], waits=waits)
    assert waits == [1.0]
    assert (count, error.retry_after_seconds) == (1, 60)
    shown = error.as_request_error()
    assert (shown.status, shown.retry_after_seconds) == (429, 60)


def test_retry_after_may_be_seconds_or_a_date() -> None:
    assert [retry_after(header) for header in ("7", "0.2", "-3", "", "soon", "inf", "nan")] == [
        7, 1, 0, None, None, None, None,
    ]  # fmt: skip
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert retry_after(later) in (89, 90)
    assert retry_after("Mon, 01 Jan 2024 00:00:00 GMT") == 0


def test_an_exhausted_budget_ends_the_retries() -> None:
    # 8 calls, 2 tries more for each until the ten free retries are spent: 5 · 3 + 3 · 1
    count, results = visits([BUSY] * 100, calls=8, retries=2, retry_share=0.0)
    assert count == 18
    assert {result.status for result in results} == {429}


def test_an_open_breaker_refuses_without_a_request_and_shows_the_failure_that_opened_it() -> None:
    count, results = visits([DOWN] * 100, calls=3, retries=5, breaker_failures=1)
    assert count == 1
    assert [(result.kind, result.status) for result in results] == [
        ("status", 503), ("overload", None), ("overload", None),
    ]  # fmt: skip
    count, results = visits([BUSY] * 100, calls=3, retries=0, breaker_failures=1)
    assert (count, [result.status for result in results]) == (3, [429] * 3)  # a rate limit is no failure


def test_streams_that_break_off_open_the_breaker() -> None:
    async def run() -> None:
        async def breaks(visit: Visit) -> None:
            await visit.send(SSE_HEAD)
            await visit.part(chat_chunk("Hel"))
            await visit.part(b"")

        config = UpstreamConfig(breaker_failures=2)
        async with raw_server(breaks) as server, upstream_at(server, config) as upstream:
            for _ in range(2):
                await chunks_of(upstream, call_of(is_streamed=True))
            assert upstream.breaker.state == "open"

    asyncio.run(run())


def test_a_stream_whose_server_ends_its_response_late_does_not_cost_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("upturn.models.upstreams.endpoint_client._DRAIN_SECONDS", 60.0)

    async def run() -> None:
        async def late(visit: Visit) -> None:
            await visit.send(SSE_HEAD)
            await visit.part(chat_chunk("Hel") + CHAT_END)
            await is_read.wait()
            await visit.part(b"")

        is_read = asyncio.Event()
        async with raw_server(late) as server, upstream_at(server, UpstreamConfig()) as upstream:
            for _ in range(3):
                is_read.clear()
                await chunks_of(upstream, call_of(is_streamed=True))
                is_read.set()
                while upstream._client._drains:
                    await asyncio.sleep(0)
            assert (len(server.visits), server.connections) == (3, 1)

    asyncio.run(run())
