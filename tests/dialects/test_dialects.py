"""Every dialect reads what it writes, and a stream says the same as a whole answer."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from upturn.dialects import (
    DIALECTS,
    CallDelta,
    Dialect,
    EventParser,
    Message,
    ModelAnswer,
    ModelRequest,
    OutputFormat,
    Part,
    Reasoning,
    ReasoningDelta,
    RequestError,
    Sampling,
    StreamEnd,
    StreamEvent,
    StreamFailure,
    StreamStart,
    Text,
    TextDelta,
    TokenUsage,
    ToolCall,
    ToolChoice,
    ToolResult,
    dialect_of,
)
from upturn.errors import ModelError, UnknownNameError
from upturn.records import JsonValue

USAGE = TokenUsage(input=20, output=9, cached_input=12, reasoning=4)
ANSWER = ModelAnswer(
    "answer-1",
    "nano",
    (
        Text("I call."),
        ToolCall("call_1", "weather", '{"city": "Köln"}'),
        ToolCall("call_2", "weather", "{}"),
    ),
    "tool_calls",
    USAGE,
)
EVENTS: list[StreamEvent] = [
    StreamStart("answer-1", "nano"),
    ReasoningDelta("Let me "),
    ReasoningDelta("see."),
    TextDelta("I "),
    TextDelta("call."),
    CallDelta(0, "call_1", "weather"),
    CallDelta(0, arguments='{"city": '),
    CallDelta(0, arguments='"Köln"}'),
    CallDelta(1, "call_2", "weather"),
    CallDelta(1, arguments="{}"),
    StreamEnd("tool_calls", USAGE),
]


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return dialect_of(request.param)


def as_bytes(body: object) -> bytes:
    return json.dumps(body).encode()


def read_stream(dialect: Dialect, content: bytes, size: int) -> list[StreamEvent]:
    reader = dialect.reader()
    events: list[StreamEvent] = []
    for start in range(0, len(content), size):
        events += reader.feed(content[start : start + size])
    return [*events, *reader.end()]


def collected(events: Sequence[StreamEvent]) -> tuple[Part, ...]:
    """The parts that a stream adds up to."""
    parts: list[Part] = []
    for event in events:
        last = parts[-1] if parts else None
        match event:
            case TextDelta():
                parts = (
                    [*parts[:-1], Text(last.text + event.text)]
                    if isinstance(last, Text)
                    else [*parts, Text(event.text)]
                )
            case ReasoningDelta():
                if isinstance(last, Reasoning):
                    parts[-1] = Reasoning(last.text + event.text, last.signature + event.signature)
                else:
                    parts.append(Reasoning(event.text, event.signature))
            case CallDelta() if event.id:
                parts.append(ToolCall(event.id, event.name, event.arguments))
            case CallDelta():
                assert isinstance(last, ToolCall)
                parts[-1] = replace(last, arguments=last.arguments + event.arguments)
    return tuple(parts)


def test_a_request_is_read_as_it_was_written(dialect: Dialect, request_with_tools: ModelRequest) -> None:
    read = dialect.read_request(as_bytes(dialect.write_request(request_with_tools)))
    assert replace(read, has_stream_usage=True) == request_with_tools


def test_an_answer_is_read_as_it_was_written(dialect: Dialect, request_with_tools: ModelRequest) -> None:
    assert dialect.read_answer(as_bytes(dialect.write_answer(ANSWER, request_with_tools))) == ANSWER


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_stream_says_what_was_written(dialect: Dialect, request_with_tools: ModelRequest, size: int) -> None:
    writer = dialect.writer(replace(request_with_tools, has_stream_usage=True))
    events = read_stream(dialect, b"".join(map(writer.write, EVENTS)), size)
    assert events[0] == StreamStart("answer-1", "nano")
    assert events[-1] == StreamEnd("tool_calls", USAGE)
    assert collected(events) == (Reasoning("Let me see."), *ANSWER.parts)


def test_cache_writes_of_anthropic_are_counted_by_their_lifetime(request_with_tools: ModelRequest) -> None:
    form = DIALECTS["messages"]
    usage: dict[str, object] = {
        "input_tokens": 10,
        "cache_read_input_tokens": 300,
        "cache_creation_input_tokens": 50,
        "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 20},
        "output_tokens": 5,
    }
    answer: dict[str, object] = {"type": "message", "id": "a", "model": "m", "content": []}
    answer |= {"stop_reason": "end_turn", "usage": usage}
    read = form.read_answer(as_bytes(answer))
    assert read.usage == TokenUsage(360, 5, 300, cache_write=50, cache_write_1h=20)
    written = form.write_answer(read, request_with_tools)["usage"]
    assert written == usage | {"output_tokens_details": {"thinking_tokens": 0}}
    start: dict[str, object] = {"type": "message_start", "message": answer | {"stop_reason": None}}
    ends = [{"output_tokens": 9}, {"input_tokens": 10, "output_tokens": 9, "cache_creation_input_tokens": 50}]
    for counted in ends:
        delta: dict[str, object] = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": counted}
        events: list[dict[str, object]] = [start, delta, {"type": "message_stop"}]
        content = b"".join(
            b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), as_bytes(event)) for event in events
        )
        assert read_stream(form, content, 100)[-1] == StreamEnd("stop", replace(read.usage, output=9))


def test_cache_writes_that_openrouter_reports_are_counted() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "total_tokens": 105,
        "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 70},
    }
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    answer = {"id": "a", "model": "m", "choices": [choice], "usage": usage}
    assert DIALECTS["chat"].read_answer(as_bytes(answer)).usage == TokenUsage(100, 5, 20, cache_write=70)


def test_a_stream_that_breaks_off_is_a_failure(dialect: Dialect, request_with_tools: ModelRequest) -> None:
    writer = dialect.writer(request_with_tools)
    content = b"".join(map(writer.write, EVENTS[:5]))
    ended = StreamFailure("the upstream ended its stream before the answer was complete")
    assert read_stream(dialect, content, 100)[-1] == ended
    failed = content + writer.write(StreamFailure("out of memory"))
    last = read_stream(dialect, failed, 100)[-1]
    assert isinstance(last, StreamFailure) and last.message == "out of memory"
    assert b"[DONE]" not in failed


def test_what_is_not_an_answer_is_named(dialect: Dialect) -> None:
    with pytest.raises(ModelError, match="<html>"):
        dialect.read_answer(b"<html>busy</html>")
    with pytest.raises(ModelError, match="<html>"):
        list(dialect.reader().feed(b"data: <html>\n\n"))


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b'{"model": "m"', "invalid_json", ""),
        (b"[]", "invalid_request", ""),
        (
            b'{"messages": [{"role": "user", "content": ""}], "input": "", "max_tokens": 1}',
            "invalid_request",
            "model",
        ),
        (
            b'{"model": "m", "max_tokens": 1, "messages": [{"role": "x", "content": ""}], "input": [{"role": 1}]}',
            "invalid_request",
            "0.role",
        ),
        (
            b'{"model": "m", "max_tokens": 1, "messages": [], "input": []}',
            "invalid_request",
            "",
        ),
        (
            b'{"model": "m", "max_tokens": 1, "stream": 0, "input": "", "messages": [{"role": "user", "content": ""'
            b"}]}",
            "invalid_request",
            "stream",
        ),
    ],
)
def test_a_bad_request_names_its_field(dialect: Dialect, body: bytes, code: str, field: str) -> None:
    with pytest.raises(RequestError) as caught:
        dialect.read_request(body)
    assert caught.value.code == code
    assert caught.value.field.endswith(field)
    error = dialect.error(caught.value)["error"]
    assert isinstance(error, dict) and error["message"] == str(caught.value)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("chat", b'{"model": "m", "messages": [{"role": "user", "content": ""}], "stop": ["a", ""]}'),
        (
            "messages",
            b'{"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": ""}],'
            b' "stop_sequences": ["a", ""]}',
        ),
    ],
)
def test_an_empty_text_stops_no_answer(name: str, body: bytes) -> None:
    with pytest.raises(
        RequestError, match=r"^stop(_sequences)?\.1: String should have at least 1 character, got ''"
    ):
        dialect_of(name).read_request(body)


def test_arguments_are_passed_on_as_written(request_with_tools: ModelRequest) -> None:
    """Chat and Responses have text there; another serialisation would change what the model reads."""
    written = '{ "b":1,\n"a" : 2.50}'
    call = Message("assistant", (ToolCall("call_1", "weather", written),))
    request = replace(request_with_tools, messages=(*request_with_tools.messages, call))
    for name in ("chat", "responses"):
        dialect = dialect_of(name)
        assert dialect.read_request(as_bytes(dialect.write_request(request))).messages[-1] == call


@pytest.mark.parametrize("name", ["responses", "messages"])
def test_interleaved_calls_are_refused(name: str, request_with_tools: ModelRequest) -> None:
    writer = dialect_of(name).writer(request_with_tools)
    for event in (EVENTS[0], CallDelta(0, "call_1", "weather"), CallDelta(1, "call_2", "weather")):
        writer.write(event)
    with pytest.raises(ModelError, match="call 0 came after the next call began"):
        writer.write(CallDelta(0, arguments="{}"))


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no dialect 'xml'; known: chat, responses, messages"):
        dialect_of("xml")


def test_a_signed_thought_survives_where_the_dialect_can_hold_it(request_with_tools: ModelRequest) -> None:
    thought = Message("assistant", (Reasoning("hm", "c2lnbmVk"), Text("yes")))
    request = replace(request_with_tools, messages=(request_with_tools.messages[1], thought))
    for name in ("responses", "messages"):
        dialect = dialect_of(name)
        assert dialect.read_request(as_bytes(dialect.write_request(request))).messages[-1] == thought
    unsigned = Message("assistant", (Reasoning("hm"), Text("yes")))
    assert (
        dialect_of("chat").read_request(as_bytes(dialect_of("chat").write_request(request))).messages[-1]
        == unsigned
    )


def test_a_chat_stream_ends_with_usage_only_where_it_was_asked_for(request_with_tools: ModelRequest) -> None:
    chat = dialect_of("chat")
    for has_usage in (True, False):
        writer = chat.writer(replace(request_with_tools, has_stream_usage=has_usage))
        events = list(EventParser().feed(b"".join(map(writer.write, EVENTS))))
        assert events[-1].data == "[DONE]"
        usages = [json.loads(event.data).get("usage") for event in events[:-1]]
        assert [usage for usage in usages if usage] == (
            [
                {
                    "prompt_tokens": 20,
                    "completion_tokens": 9,
                    "total_tokens": 29,
                    "prompt_tokens_details": {"cached_tokens": 12},
                    "completion_tokens_details": {"reasoning_tokens": 4},
                }
            ]
            if has_usage
            else []
        )


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("chat", {"n": 2}, "n"),
        ("chat", {"functions": [{}]}, "functions"),
        ("chat", {"modalities": ["audio"]}, "modalities"),
        ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
        ("responses", {"tools": [{"type": "web_search"}]}, "tools.0"),
        ("responses", {"input": [{"type": "item_reference", "id": "x"}]}, "input.0"),
        ("messages", {"tools": [{"type": "web_search_20260101", "name": "web_search"}]}, "tools.0"),
        ("messages", {"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "messages.0.content.0"),
    ],
)
def test_what_nobody_here_can_do_is_refused_by_name(name: str, body: dict[str, object], field: str) -> None:
    base = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], "input": "hi"}
    with pytest.raises(RequestError) as caught:
        dialect_of(name).read_request(as_bytes({**base, **body}))
    assert (caught.value.field, caught.value.code) == (field, "unsupported")


def test_a_schema_of_the_answer_passes_between_all_dialects(dialect: Dialect) -> None:
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"city": {"type": "string"}}}
    asked = ModelRequest("m", (Message("user", (Text("hi"),)),), output=OutputFormat("schema", "answer", schema))
    read = dialect.read_request(as_bytes({"max_tokens": 5, **dialect.write_request(asked)}))
    assert read.output == asked.output


def thinking_of(request: ModelRequest) -> object:
    return dialect_of("messages").write_request(request).get("thinking")


def test_an_unsigned_thought_is_not_sent_to_anthropic() -> None:
    history = (
        Message("user", (Text("hi"),)),
        Message("assistant", (Reasoning("hm"), Text("hello"))),
        Message("user", (Text("again"),)),
        Message("assistant", (Reasoning("hm"),)),
        Message("user", (Text("and again"),)),
    )
    written = dialect_of("messages").write_request(ModelRequest("m", history))["messages"]
    assert written == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
        {"role": "user", "content": [{"type": "text", "text": "again"}, {"type": "text", "text": "and again"}]},
    ]


@pytest.mark.parametrize(("signature", "thinks"), [("", False), ("signed", True)])
def test_no_thoughts_are_asked_of_anthropic_after_calls_without_a_signed_one(signature: str, thinks: bool) -> None:
    history = (
        Message("user", (Text("hi"),)),
        Message("assistant", (Reasoning("hm", signature), ToolCall("c", "f", "{}"))),
        Message("tool", (ToolResult("c", (Text("done"),)),)),
    )
    asked = ModelRequest("m", history, effort="low")
    assert bool(thinking_of(asked)) == thinks
    assert thinking_of(replace(asked, messages=(*history, Message("user", (Text("next"),)))))


def test_thoughts_are_asked_of_anthropic_only_where_it_allows_them() -> None:
    asked = ModelRequest("m", (Message("user", (Text("hi"),)),), effort="low", sampling=Sampling(temperature=0.5))
    assert thinking_of(asked) == {"type": "enabled", "budget_tokens": 2048}
    assert "temperature" not in dialect_of("messages").write_request(asked)
    assert thinking_of(replace(asked, sampling=Sampling(max_tokens=1000))) is None
    assert thinking_of(replace(asked, sampling=Sampling(max_tokens=1500))) == {
        "type": "enabled",
        "budget_tokens": 1499,
    }
    assert thinking_of(replace(asked, tool_choice=ToolChoice("required"))) is None


@pytest.mark.parametrize(
    ("name", "sampling", "field"),
    [
        ("messages", Sampling(seed=0), "seed"),
        ("messages", Sampling(frequency_penalty=0.5), "frequency_penalty"),
        ("responses", Sampling(stop=("x",)), "stop"),
    ],
)
def test_sampling_that_an_upstream_cannot_do_is_refused(name: str, sampling: Sampling, field: str) -> None:
    with pytest.raises(RequestError) as caught:
        dialect_of(name).write_request(ModelRequest("m", (Message("user", (Text("hi"),)),), sampling=sampling))
    assert (caught.value.field, caught.value.code) == (field, "unsupported")


def test_an_unsigned_thought_comes_back_from_an_anthropic_client_as_a_thought(
    request_with_tools: ModelRequest,
) -> None:
    dialect = dialect_of("messages")
    answer = ModelAnswer("a", "m", (Reasoning("hm"), Text("hello")), "stop")
    blocks = dialect.write_answer(answer, request_with_tools)["content"]
    assert isinstance(blocks, list)
    assert blocks[0] == {"type": "thinking", "thinking": "hm", "signature": "unsigned"}
    writer = dialect.writer(request_with_tools)
    events: list[StreamEvent] = [StreamStart("a", "m"), ReasoningDelta("hm"), TextDelta("hello"), StreamEnd("stop")]
    streamed = b"".join(map(writer.write, events))
    assert streamed.count(b'"signature_delta","signature":"unsigned"') == 1
    assert read_stream(dialect, streamed, 100)[1:3] == [ReasoningDelta("hm"), TextDelta("hello")]
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "assistant", "content": blocks}]}
    [message] = dialect.read_request(as_bytes(body)).messages
    assert message.parts == answer.parts
