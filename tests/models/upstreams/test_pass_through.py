"""Answers in the client's dialect: the upstream's bytes unchanged, or the same content translated."""

import asyncio
import itertools
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.models.upstreams.raw_server import (
    CHAT_USAGE,
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
from upturn.dialects import (
    DIALECTS,
    CallDelta,
    ModelAnswer,
    Sampling,
    StreamEnd,
    StreamEvent,
    StreamStart,
    Text,
    TextDelta,
    TokenUsage,
    ToolCall,
    dialect_of,
)
from upturn.models.upstreams import Chunk, Drawn, UpstreamCall
from upturn.models.upstreams.answer_stream import AnswerStream
from upturn.models.upstreams.request_body import request_body
from upturn.models.upstreams.token_capture import TokenCapture

EVENTS: list[StreamEvent] = [
    StreamStart("theirs-1", "theirs"),
    TextDelta("Köln "),
    TextDelta('"finish_reason": "stop" data: [DONE] response.completed {"type": "message_stop"}'),
    CallDelta(0, "call_1", "weather", ""),
    CallDelta(0, arguments='{"city": '),
    CallDelta(0, arguments='"Bonn"}'),
    StreamEnd("tool_calls", TokenUsage(3, 2)),
]
ANSWER = ModelAnswer(
    "theirs-1",
    "theirs",
    (
        Text('Köln "finish_reason": "stop" data: [DONE] response.completed {"type": "message_stop"}'),
        ToolCall("call_1", "weather", '{"city": "Bonn"}'),
    ),
    "tool_calls",
    TokenUsage(3, 2),
)
NAMES = sorted(DIALECTS)


def written(name: str, events: Iterable[StreamEvent] = EVENTS) -> list[bytes]:
    """The events of a stream of this dialect, one in each item."""
    writer = dialect_of(name).writer(usage_call(name).request)
    stream = b"".join(writer.write(event) for event in events)
    return [event + b"\n\n" for event in stream.split(b"\n\n")[:-1]]


def stream_of(call: UpstreamCall, upstream: str, tokens: str = "none") -> AnswerStream:
    dialect = dialect_of(upstream)
    return AnswerStream(call, dialect, TokenCapture(tokens, upstream, call))


def usage_call(name: str, **fields: Any) -> UpstreamCall:
    """A call of a stream whose client wants all that the upstream sends."""
    if name == "chat":
        fields["stream_options"] = {"include_usage": True}
    return call_of(name, is_streamed=True, **fields)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_passes_through_unchanged_wherever_its_bytes_are_cut(name: str, ending: bytes) -> None:
    events = [*EVENTS[:2], StreamEnd("stop", TokenUsage(3, 2))]
    content = b"".join(written(name, events)).replace(b"\n", ending)
    for cut in range(len(content) + 1):
        stream = stream_of(usage_call(name), name)
        chunks = list(stream.feed(content[:cut]))
        if not stream.is_over:
            chunks += stream.feed(content[cut:])
        if not stream.is_over:
            chunks.append(stream.end())
        assert b"".join(chunk.content for chunk in chunks) == content
        assert [chunk.is_end for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
        answer = ModelAnswer("theirs-1", "theirs", (Text("Köln "),), "stop", TokenUsage(3, 2))
        assert stream.transcript.answer() == answer


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_passes_through_byte_by_byte_as_its_events_complete(name: str) -> None:
    events = written(name)
    chunks: list[Chunk] = []
    stream = stream_of(usage_call(name), name)
    for byte in b"".join(events):
        chunks += stream.feed(bytes([byte]))
    assert stream.is_over
    # text that looks like an end is sent at once; from the first event of the end on, all is one chunk
    held = {"chat": 3, "messages": 2, "responses": 1}[name]
    assert [chunk.content for chunk in chunks] == [*events[:-held], b"".join(events[-held:])]
    assert chunks[-1].is_end


@pytest.mark.parametrize(("client", "upstream"), list(itertools.product(NAMES, NAMES)))
def test_a_stream_holds_the_same_answer_in_the_dialect_of_every_client(client: str, upstream: str) -> None:
    call = usage_call(client)
    call = UpstreamCall(call.body, call.request, call.dialect, answer_id="ours-1")
    for size in (1, 7, 10_000):
        sent: list[Chunk] = []
        stream, content = stream_of(call, upstream), b"".join(written(upstream))
        for start in range(0, len(content), size):
            sent += stream.feed(content[start : start + size])
        assert [chunk.is_end for chunk in sent] == [False] * (len(sent) - 1) + [True]
        read = stream_of(usage_call(client), client)
        list(read.feed(b"".join(chunk.content for chunk in sent)))
        answer = read.transcript.answer()
        assert answer is not None
        assert answer.id == "ours-1"
        assert (answer.parts, answer.finish, answer.usage) == (ANSWER.parts, ANSWER.finish, ANSWER.usage)


@pytest.mark.parametrize(("client", "upstream"), list(itertools.product(NAMES, NAMES)))
def test_a_whole_answer_is_the_same_in_the_dialect_of_every_client(client: str, upstream: str) -> None:
    theirs = dialect_of(upstream)
    body = theirs.write_answer(ANSWER, call_of(upstream).request)

    async def run() -> None:
        async def answers(visit: Visit) -> None:
            request = theirs.read_request(visit.body)
            assert (request.model, visit.headers[""]) == ("theirs", f"POST /v1{theirs.path} HTTP/1.1")
            assert request.messages == call_of(client).request.messages
            assert ("anthropic-version" in visit.headers) == (upstream == "messages")
            key = visit.headers["x-api-key" if upstream == "messages" else "authorization"]
            assert key.removeprefix("Bearer ") == "sk-1"
            await visit.json(body)

        config = UpstreamConfig(dialect=upstream)  # type: ignore[arg-type]
        async with raw_server(answers) as server, upstream_at(server, config, "sk-1") as there:
            (chunk,), outcome = await chunks_of(there, call_of(client, answer_id="ours-1"))
            read = dialect_of(client).read_answer(chunk.content)
            assert (read.id, read.parts, read.finish, read.usage) == (
                "ours-1", ANSWER.parts, ANSWER.finish, ANSWER.usage,
            )  # fmt: skip
            assert outcome.answer.parts == ANSWER.parts
            if client == upstream:
                assert chunk.content == json.dumps(body).encode().replace(b"theirs-1", b"ours-1", 1)

    asyncio.run(run())


def test_the_usage_that_a_client_did_not_ask_for_is_counted_and_left_out() -> None:
    async def run(options: dict[str, Any]) -> tuple[bytes, Any, Any]:
        async def answers(visit: Visit) -> None:
            await visit.send(SSE_HEAD)
            await visit.part(chat_chunk("Hel") + chat_chunk(finish="stop") + CHAT_USAGE + b"data: [DONE]\n\n")
            await visit.part(b"")

        async with raw_server(answers) as server, upstream_at(server, UpstreamConfig()) as upstream:
            chunks, outcome = await chunks_of(upstream, call_of(is_streamed=True, **options))
            content = b"".join(chunk.content for chunk in chunks)
            return content, outcome.usage, json.loads(server.visits[0].body)["stream_options"]

    whole = chat_chunk("Hel") + chat_chunk(finish="stop") + CHAT_USAGE + b"data: [DONE]\n\n"
    wanted = {"stream_options": {"include_usage": True}}
    refused = {"stream_options": {"include_usage": False, "x": 1}}
    asked = {"include_usage": True}
    assert asyncio.run(run(wanted)) == (whole, TokenUsage(3, 2), asked)
    assert asyncio.run(run({})) == (whole.replace(CHAT_USAGE, b""), TokenUsage(3, 2), asked)
    assert asyncio.run(run(refused)) == (whole.replace(CHAT_USAGE, b""), TokenUsage(3, 2), {**asked, "x": 1})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model": "route", "x": 1.0, "y": "\\u00e9"}', b'{"model":"theirs", "x": 1.0, "y": "\\u00e9"}'),
        (b'{ "x": "\\"model\\": \\"a\\"", "model" : "r" }', b'{ "x": "\\"model\\": \\"a\\"", "model":"theirs" }'),
        # two keys of that name, or a key in disguise: only one model is left
        (b'{"model": "r", "model": "expensive"}', b'{"model":"theirs"}'),
        (b'{"model": "r", "mod\\u0065l": "expensive"}', b'{"model":"theirs"}'),
        (b'{"model": "r", "x": {"model": "y"}}', b'{"model":"theirs","x":{"model":"y"}}'),
    ],
)
def test_only_the_model_of_a_request_is_replaced(body: bytes, expected: bytes) -> None:
    call = UpstreamCall(body, call_of().request, dialect_of("chat"))
    assert request_body(call, dialect_of("chat"), "theirs", {}) == expected


def test_an_unsigned_thought_is_taken_out_of_a_request_for_anthropic() -> None:
    body = {
        "model": "r",
        "max_tokens": 5,
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "unsigned"},
                    {"type": "text", "text": "hello"},
                ],
            },
            {"role": "user", "content": "again"},
        ],
    }
    dialect = dialect_of("messages")
    raw = json.dumps(body).encode()
    sent = json.loads(request_body(UpstreamCall(raw, dialect.read_request(raw), dialect), dialect, "theirs", {}))
    assert sent["messages"][1] == {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}
    signed = raw.replace(b'"unsigned"', b'"c2ln"')
    kept = request_body(UpstreamCall(signed, dialect.read_request(signed), dialect), dialect, "theirs", {})
    assert kept == signed.replace(b'"model": "r"', b'"model":"theirs"')


def test_extras_are_added_to_a_request_without_serialising_the_rest() -> None:
    call = UpstreamCall(b'{"model": "r", "x":  1}', call_of().request, dialect_of("chat"))
    assert (
        request_body(call, dialect_of("chat"), "m", {"logprobs": True}) == b'{"logprobs":true,"model":"m", "x":  1}'
    )


def _with_tokens(content: dict[str, Any], ids: list[int], prompt: list[int]) -> dict[str, Any]:
    choice = content["choices"][0]
    logprobs = {"content": [{"token": "t", "logprob": -0.5} for _ in ids]}
    return {
        **content,
        "prompt_token_ids": prompt,
        "choices": [{**choice, "token_ids": ids, "logprobs": logprobs}],
    }


@pytest.mark.parametrize(
    ("ids", "prompt", "problem"),
    [
        ([7, 8], [1, 2, 3], ""),
        ([7], [1, 2, 3], "the server returned 1 token ids and counts 2"),
        ([7, 8], [], "no token ids"),
        ([7, "x"], [1, 2, 3], "unknown form"),
    ],
)
def test_tokens_of_a_whole_answer_are_captured_and_left_out(ids: Any, prompt: list[int], problem: str) -> None:
    async def run() -> None:
        async def answers(visit: Visit) -> None:
            asked = json.loads(visit.body)
            assert (asked["logprobs"], asked["return_token_ids"]) == (True, True)
            await visit.json(_with_tokens(chat_answer(), ids, prompt))

        async with raw_server(answers) as server, upstream_at(server, UpstreamConfig(tokens="vllm")) as upstream:
            (chunk,), outcome = await chunks_of(upstream, call_of())
            expected = chat_answer()
            expected["choices"][0]["logprobs"] = None
            assert json.loads(chunk.content) == expected
            assert problem in outcome.tokens_problem
            assert bool(outcome.tokens_problem) == bool(problem)
            if not problem:
                assert outcome.tokens.token_ids == (1, 2, 3, 7, 8)
                assert outcome.tokens.logprobs == (-0.5, -0.5)

    asyncio.run(run())


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_tokens_of_a_stream_are_captured_wherever_it_is_cut(ending: bytes, size: int) -> None:
    def event(text: str, number: int, finish: str | None = None) -> bytes:
        body = json.loads(chat_chunk(text, finish).removeprefix(b"data:"))
        return (
            b"data: " + json.dumps(_with_tokens(body, [number], [1, 2] if number == 7 else [])).encode() + b"\n\n"
        )

    end = CHAT_USAGE + b"data: [DONE]\n\n"
    content = (b": hello\n\n" + event("a", 7) + event("b", 8, "stop") + end).replace(b"\n", ending)
    chunks: list[Chunk] = []
    stream = stream_of(usage_call("chat"), "chat", "vllm")
    for start in range(0, len(content), size):
        chunks += stream.feed(content[start : start + size])
    assert stream.is_over
    sent = b"".join(chunk.content for chunk in chunks)
    assert b"token_ids" not in sent
    assert b'"logprob"' not in sent
    answer = stream.transcript.answer()
    assert answer is not None
    assert answer.parts == (Text("ab"),)
    row, problem, drawn = stream.capture.row(answer)
    assert drawn is None  # the request names no temperature
    assert problem == ""
    assert row is not None
    assert (row.token_ids, row.logprobs) == ((1, 2, 7, 8), (-0.5, -0.5))


def test_a_capture_that_meets_garbage_leaves_it_to_the_reader_of_the_stream() -> None:
    capture = TokenCapture("vllm", "chat", call_of(is_streamed=True))
    for raw in (b"data: garbage\n\n", b"data: []\n\n", b"data: [DONE]\n\n", b": data\n\n", b"\n\n"):
        assert capture.event(raw).strip() == raw.strip()


def test_how_a_servers_tokens_were_drawn_is_known_where_the_request_says_it() -> None:
    answer = ModelAnswer("a", "m", (Text("ab"),), "stop", TokenUsage(2, 2))
    for sampling, expected in (
        (Sampling(), None),
        (Sampling(temperature=0.5), Drawn(0.5)),
        (Sampling(temperature=1.0, top_p=0.9, seed=3), Drawn(1.0, {"top_p": 0.9})),
        (Sampling(top_p=0.9), None),
    ):
        call = call_of()
        capture = TokenCapture("vllm", "chat", replace(call, request=replace(call.request, sampling=sampling)))
        capture.whole(json.dumps(_with_tokens(chat_answer(), [7, 8], [1, 2])).encode())
        row, problem, drawn = capture.row(answer)
        assert row is not None
        assert (problem, drawn) == ("", expected)
