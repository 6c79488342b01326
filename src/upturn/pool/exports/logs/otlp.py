"""OpenTelemetry's JSON (OTLP) with the GenAI conventions, which tracing tools import.

One line per trajectory, each an ``ExportTraceServiceRequest``, as collectors write and read files. A trajectory is
a trace: a span ``invoke_agent``, and in it a span ``chat`` for each message of the model and ``execute_tool`` for
each call. Its evaluation is an event ``gen_ai.evaluation.result``. Identifiers are hashes of the trajectory's id,
so an export again gives the same spans.

A trajectory has one duration and no times of its turns: its spans divide it evenly, and say so
(``upturn.time.is_estimated``).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

from sqlalchemy import select

from upturn import __version__
from upturn.dialects import Json, Message, Part, Reasoning, Text, ToolCall, ToolResult, json_object, message_text
from upturn.pool import schema
from upturn.pool.exports.chat import Chat, tool_rows
from upturn.pool.exports.source import ChatPoint, ChatSource
from upturn.pool.row import digest
from upturn.records import Evaluation, JsonValue, Usage

_CLIENT, _INTERNAL = 3, 1
"""``SpanKind``"""
_OK, _ERROR = 1, 2
"""``StatusCode``"""
_BROKEN = ("model_error", "environment_error", "program_error")

Attributes = Mapping[str, "JsonValue"]


class _Clock(NamedTuple):
    """Times of the spans, in nanoseconds since 1970."""

    start: int
    step: int
    """Duration of one span inside the trajectory."""

    def at(self, index: int) -> str:
        return str(self.start + index * self.step)


def write_otlp(
    source: ChatSource, file: BinaryIO, _now: float, on_point: Callable[[], object] = lambda: None
) -> int:
    """Writes the traces of the source's trajectories of all splits; returns their number.

    ``on_point`` is called for each trajectory.
    """
    count = 0
    resource: Json = {"attributes": _attributes({"service.name": "upturn", "upturn.tenant": source.tenant})}
    scope: Json = {"name": "upturn", "version": __version__}
    for experience in source.experiences(split=None):
        point = source.read(experience, has_end=True)
        on_point()
        if point is None:
            continue
        count += 1
        spans: list[JsonValue] = list(_spans(point, _recorded_at(source, experience.trajectory.id)))
        request: Json = {
            "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]
        }
        file.write(json.dumps(request, ensure_ascii=False).encode() + b"\n")
    return count


def _recorded_at(source: ChatSource, trajectory_id: str) -> float:
    table = schema.trajectories
    with source.pool.engine.connect() as connection:
        query = select(table.c.recorded_at).where(table.c.id == trajectory_id)
        return float(connection.execute(query).scalar_one())


def _spans(point: ChatPoint, recorded_at: float) -> Iterator[Json]:
    """Yields the trajectory's span, then those inside it in their order."""
    inner = [member for chat in point.chats for member in _members(chat)]
    seconds = max(point.trajectory.usage.seconds, 0.0)
    end = round(recorded_at * 1e9)
    step = round(seconds * 1e9) // max(len(inner), 1)
    clock = _Clock(end - step * max(len(inner), 1), step)
    trace = digest(point.trajectory.id)
    yield _agent_span(point, trace, clock, len(inner))
    for index, member in enumerate(inner):
        attributes = member.attributes | {"upturn.time.is_estimated": True}
        if member.kind == _CLIENT:
            attributes |= {"gen_ai.request.model": point.trajectory.agent_version, "gen_ai.provider.name": "upturn"}
        yield {
            "traceId": trace[:32],
            "spanId": digest(trace, str(index))[:16],
            "parentSpanId": trace[32:48],
            "name": f"{member.name} {point.trajectory.agent_version}" if member.kind == _CLIENT else member.name,
            "kind": member.kind,
            "startTimeUnixNano": clock.at(index),
            "endTimeUnixNano": clock.at(index + 1),
            "attributes": _attributes(attributes),
            "status": {"code": _ERROR} if member.is_error else {},
        }


def _agent_span(point: ChatPoint, trace: str, clock: _Clock, length: int) -> Json:
    task, trajectory = point.task, point.trajectory
    agent, _, version = trajectory.agent_version.rpartition("@")
    tools = point.chats[0].tools if point.chats else ()
    attributes: Json = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "upturn",
        "gen_ai.agent.id": trajectory.agent_version,
        "gen_ai.agent.name": agent or trajectory.agent_version,
        "gen_ai.agent.version": version,
        **_usage(trajectory.usage),
        **({"gen_ai.conversation.id": task.episode} if task.episode else {}),
        **({"gen_ai.tool.definitions": _text(tool_rows(tools))} if tools else {}),
        "upturn.task.id": task.id,
        "upturn.task.family": task.family,
        "upturn.task.environment": task.environment,
        "upturn.task.split": task.split,
        "upturn.trajectory.id": trajectory.id,
        "upturn.trajectory.outcome": trajectory.outcome,
        "upturn.trajectory.origin": trajectory.origin,
        "upturn.time.is_estimated": True,
    }
    is_broken = trajectory.outcome in _BROKEN
    if is_broken:
        attributes["error.type"] = trajectory.outcome
    span: Json = {
        "traceId": trace[:32],
        "spanId": trace[32:48],
        "name": f"invoke_agent {agent or trajectory.agent_version}",
        "kind": _INTERNAL,
        "startTimeUnixNano": clock.at(0),
        "endTimeUnixNano": clock.at(max(length, 1)),
        "attributes": _attributes(attributes),
        "status": {"code": _ERROR, "message": trajectory.error} if is_broken else {"code": _OK},
    }
    if point.evaluation is not None:
        span["events"] = [_evaluation_event(point.evaluation, clock.at(max(length, 1)))]
    return span


def _usage(usage: Usage) -> Json:
    """Returns the counted tokens; empty = none are known."""
    if usage.prompt_tokens == usage.written_tokens == 0:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.written_tokens,
    }


def _evaluation_event(evaluation: Evaluation, time: str) -> Json:
    attributes: Json = {
        "gen_ai.evaluation.name": evaluation.evaluator,
        "gen_ai.evaluation.score.label": evaluation.verdict,
    }
    if evaluation.score is not None:
        attributes["gen_ai.evaluation.score.value"] = evaluation.score
    return {"timeUnixNano": time, "name": "gen_ai.evaluation.result", "attributes": _attributes(attributes)}


class _Member(NamedTuple):
    """A span inside a trajectory, without its place."""

    name: str
    kind: int
    attributes: Json
    is_error: bool = False


def _members(chat: Chat) -> Iterator[_Member]:
    results = {
        part.call_id: part for message in chat.messages for part in message.parts if isinstance(part, ToolResult)
    }
    for index, message in enumerate(chat.messages):
        if message.role != "assistant":
            continue
        yield _Member("chat", _CLIENT, _chat_attributes(chat.messages[:index], message))
        for call in message.parts:
            if isinstance(call, ToolCall):
                yield _tool_member(call, results.get(call.id))


def _chat_attributes(before: Sequence[Message], message: Message) -> Json:
    calls = any(isinstance(part, ToolCall) for part in message.parts)
    reason = "tool_calls" if calls else "stop"
    system = [part for line in before if line.role == "system" for part in line.parts]
    attributes: Json = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": _text([_message(line) for line in before if line.role != "system"]),
        "gen_ai.output.messages": _text([{**_message(message), "finish_reason": reason}]),
        "gen_ai.response.finish_reasons": [reason],
    }
    if system:
        attributes["gen_ai.system_instructions"] = _text([_part(part) for part in system])
    return attributes


def _tool_member(call: ToolCall, result: ToolResult | None) -> _Member:
    attributes: Json = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.call.arguments": call.arguments,
    }
    if result is not None:
        attributes["gen_ai.tool.call.result"] = message_text(Message("tool", (result,)))
    is_error = result is not None and result.is_error
    if is_error:
        attributes["error.type"] = "tool_error"
    return _Member(f"execute_tool {call.name}", _INTERNAL, attributes, is_error)


def _message(message: Message) -> Json:
    return {"role": message.role, "parts": [_part(part) for part in message.parts]}


def _part(part: Part) -> Json:
    """Returns a part in the form of the GenAI conventions' message schemas."""
    match part:
        case Text():
            return {"type": "text", "content": part.text}
        case Reasoning():
            return {"type": "reasoning", "content": part.text}
        case ToolCall():
            arguments = json_object(part.arguments or "{}")
            written: JsonValue = part.arguments if arguments is None else arguments
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": written}
        case ToolResult():
            text = message_text(Message("tool", (part,)))
            return {"type": "tool_call_response", "id": part.call_id, "response": text}
        case _:  # the source omits trajectories with images
            raise AssertionError(f"a part that is no text: {part!r}")


def _text(value: Sequence[JsonValue]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _attributes(values: Attributes) -> list[JsonValue]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: JsonValue) -> Json:
    """Returns an attribute's value as OTLP's ``AnyValue``."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}  # 64-bit integers are text in protobuf's JSON
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
        case _:
            return {"stringValue": str(value)}
