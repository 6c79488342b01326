"""Endpoints that do everything wrong: no failure hangs, hides, or ends a stream as if it were complete."""

import asyncio
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from tests.models.upstreams import faults
from tests.models.upstreams.raw_server import (
    SSE_HEAD,
    Behaviour,
    Visit,
    call_of,
    chat_answer,
    chat_chunk,
    chunks_of,
    raw_server,
    upstream_at,
)
from upturn.config import TimeoutConfig, UpstreamConfig
from upturn.models.upstreams import UpstreamError

CALM = TimeoutConfig(connect=60.0, first_token=60.0, between_tokens=60.0, whole=120.0)
"""Never reached on a busy machine."""
FAST = TimeoutConfig(connect=0.5, first_token=0.2, between_tokens=0.2, whole=2.0)


def refusal(
    behaviour: Behaviour, *, key: str = "", streamed: bool = True, **settings: Any
) -> tuple[UpstreamError, int]:
    """The error of a call, and the number of requests that the server saw."""

    async def run() -> tuple[UpstreamError, int]:
        config = UpstreamConfig(**{"retries": 0, "timeouts": CALM, **settings})
        async with raw_server(behaviour) as server, upstream_at(server, config, key) as upstream:
            with pytest.raises(UpstreamError) as caught:
                await chunks_of(upstream, call_of(is_streamed=streamed))
            return caught.value, len(server.visits)

    return asyncio.run(run())


def broken_stream(behaviour: Behaviour, **settings: Any) -> tuple[bytes, Any]:
    """What the client gets of a stream that begins, and the outcome before its end."""

    async def run() -> tuple[bytes, Any]:
        config = UpstreamConfig(**{"retries": 0, "timeouts": CALM, **settings})
        async with raw_server(behaviour) as server, upstream_at(server, config) as upstream:
            chunks, outcome = await chunks_of(upstream, call_of(is_streamed=True))
            assert chunks[-1].is_end
            return b"".join(chunk.content for chunk in chunks), outcome

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("behaviour", "streamed", "kind", "message"),
    [
        (
            faults.silent,
            True,
            "timeout",
            r"did not begin its answer within 0\.2 s \(agents\.upstream\.timeouts\.first_token",
        ),
        (faults.silent_after_head, True, "timeout", "first_token"),
        (faults.hangs_up, True, "connect", "broke off: ServerDisconnectedError"),
        (faults.garbage, False, "connect", "broke off"),
        (faults.bad_length, False, "connect", "broke off"),
        (faults.short_body, False, "connect", "broke off: ClientPayloadError"),
        (faults.not_json, False, "protocol", "not a chat completion"),
        (faults.error_first, True, "protocol", "no GPU left"),
        (faults.empty_stream, True, "protocol", "ended its stream before the answer was complete"),
    ],
)
def test_a_failure_before_the_first_token_is_an_error_that_another_upstream_can_answer(
    behaviour: Behaviour, streamed: bool, kind: str, message: str
) -> None:
    error, visits = refusal(behaviour, streamed=streamed, timeouts=FAST if kind == "timeout" else CALM)
    assert error.kind == kind
    assert visits == 1
    with pytest.raises(UpstreamError, match=message):
        raise error


def test_an_answer_that_is_not_streamed_may_take_as_long_as_the_whole_call() -> None:
    async def slow(visit: Visit) -> None:
        await asyncio.sleep(0.1)
        await visit.json(chat_answer())

    async def run() -> None:
        config = UpstreamConfig(retries=0, timeouts=replace(CALM, first_token=0.02, between_tokens=0.02))
        async with raw_server(slow) as server, upstream_at(server, config) as upstream:
            chunks, outcome = await chunks_of(upstream, call_of())
            assert json.loads(chunks[0].content) == chat_answer()
            assert 0.1 <= outcome.first_token_seconds < 60.0

    asyncio.run(run())
    error, _ = refusal(faults.silent, streamed=False, timeouts=TimeoutConfig(0.3, 0.3, 0.3, 0.3))
    assert (error.kind, "timeouts.whole" in str(error)) == ("timeout", True)


def test_a_port_that_nobody_listens_on_is_named_without_the_key() -> None:
    async def run() -> UpstreamError:
        async with raw_server(faults.silent) as server:
            pass
        async with upstream_at(server, UpstreamConfig(retries=0), "sk-secret") as upstream:
            with pytest.raises(UpstreamError, match="cannot be reached") as caught:
                await chunks_of(upstream, call_of())
            return caught.value

    assert asyncio.run(run()).kind == "connect"


def test_an_error_that_repeats_the_key_is_shown_without_it() -> None:
    async def unauthorised(visit: Visit) -> None:
        said = f"Incorrect API key: {visit.headers['authorization'].removeprefix('Bearer ')}"
        await visit.json({"error": {"message": said}}, "401 Unauthorized")

    error, _ = refusal(unauthorised, key="sk-secret")
    assert "Incorrect API key: …" in str(error)
    assert "sk-secret" not in repr(error) + str(error) + repr(error.__context__)
    assert error.status == 401


def test_a_redirect_is_not_followed() -> None:
    async def redirects(visit: Visit) -> None:
        await visit.json({}, "307 Temporary Redirect", "location: http://127.0.0.1:9/v1/chat/completions")

    error, visits = refusal(redirects, streamed=False)
    assert (error.status, visits) == (307, 1)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (faults.dies_midway, "broke off: ClientPayloadError"),
        (faults.hangs_midway, "sent nothing for 0.2 s"),
        (faults.ends_midway, "before the answer was complete"),
        (faults.garbage_midway, "not a chunk of a chat completion"),
        (faults.garbage_at_the_end, "not a chunk of a chat completion"),
        (faults.error_midway, "no GPU left"),
        (faults.done_midway, "before the answer was complete"),
        (faults.error_without_head, "before the answer was complete"),
    ],
)
def test_a_stream_that_breaks_off_ends_with_an_error_and_not_as_complete(
    behaviour: Behaviour, message: str
) -> None:
    limits = replace(CALM, between_tokens=0.2) if behaviour is faults.hangs_midway else CALM
    content, outcome = broken_stream(behaviour, timeouts=limits)
    first, last = content.split(b"\n\n")[0], content.split(b"\n\n")[-2]
    assert first + b"\n\n" == chat_chunk("Hel")
    assert message in json.loads(last.removeprefix(b"data: "))["error"]["message"]
    assert b"[DONE]" not in content
    assert message in outcome.failure
    assert outcome.answer.parts[0].text == "Hel"


def test_one_byte_at_a_time_ends_at_the_limit_of_the_whole_call() -> None:
    async def drips(visit: Visit) -> None:
        await visit.send(SSE_HEAD)
        await visit.part(chat_chunk("Hel"))
        while True:
            await visit.part(b":")
            await asyncio.sleep(0.02)

    limits = TimeoutConfig(connect=0.9, first_token=0.9, between_tokens=0.9, whole=0.9)
    content, outcome = broken_stream(drips, timeouts=limits)
    assert content.startswith(chat_chunk("Hel"))
    assert "its answer took more than 0.9 s" in outcome.failure


@pytest.mark.parametrize("streamed", [True, False])
def test_a_huge_answer_is_refused_with_bounded_memory(streamed: bool) -> None:
    async def floods(visit: Visit) -> None:
        await visit.send(SSE_HEAD)
        if streamed:
            await visit.part(chat_chunk("Hel"))
        filler = b":" + b"x" * 65_000 + b"\n\n" if streamed else b" " * 65_003
        for _ in range(1_600):  # 104 MB
            await visit.part(filler)

    tracemalloc.start()
    try:
        if streamed:
            _, outcome = broken_stream(floods, max_answer_bytes=2_000_000)
            message = outcome.failure
        else:
            message = str(refusal(floods, streamed=False, max_answer_bytes=2_000_000)[0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "the answer has more than 2,000,000 bytes (agents.upstream.max_answer_bytes)" in message
    assert peak < 12_000_000


def test_comments_without_end_before_the_first_token_are_refused() -> None:
    async def comments(visit: Visit) -> None:
        await visit.send(SSE_HEAD)
        while True:
            await visit.part(b":" + b"x" * 65_000 + b"\n\n")

    error, _ = refusal(comments)
    assert "8,388,608 bytes came before the first token" in str(error)


@pytest.mark.parametrize("is_begun", [False, True])
def test_the_upstream_sees_that_the_client_left(is_begun: bool) -> None:
    async def run() -> None:
        left, begun = asyncio.Event(), asyncio.Event()

        async def waits(visit: Visit) -> None:
            if is_begun:
                await visit.send(SSE_HEAD)
                await visit.part(chat_chunk("Hel"))
            begun.set()
            await visit.departure()
            left.set()

        async with raw_server(waits) as server, upstream_at(server, UpstreamConfig(max_concurrent=1)) as upstream:
            task = asyncio.ensure_future(chunks_of(upstream, call_of(is_streamed=True)))
            await begun.wait()
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.wait_for(left.wait(), 60.0)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert upstream.breaker.state == "closed"
            async with upstream.limit.place():  # the place is free again
                assert len(server.visits) == 1

    asyncio.run(run())


def test_a_request_that_the_server_has_no_form_for_is_refused_without_a_call() -> None:
    async def run() -> None:
        config = UpstreamConfig(dialect="messages")
        async with raw_server(faults.silent) as server, upstream_at(server, config) as upstream:
            with pytest.raises(UpstreamError) as caught:
                await chunks_of(upstream, call_of(response_format={"type": "json_object"}))
            assert caught.value.is_fault_of_request
            assert server.visits == []

    asyncio.run(run())


def test_a_capture_of_tokens_that_the_form_of_the_api_lacks_is_a_contradiction() -> None:
    with pytest.raises(ValueError, match="tokens='vllm' needs dialect='chat', got 'messages'"):
        UpstreamConfig(tokens="vllm", dialect="messages")
