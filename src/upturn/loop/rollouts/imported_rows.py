"""Token rows of imported conversations, in the model's own chat format, for supervised and preference training."""

from dataclasses import replace

from upturn.dialects import ModelAnswer, ModelRequest, RequestError, ToolCall, ToolDefinition, json_object
from upturn.models.upstreams import Script
from upturn.pool import LostWordsError, Transcript, transcript
from upturn.records import JsonValue, TokenRow, Trajectory, WrittenSpan


class UnwritableError(ValueError):
    """The model's format does not have an imported conversation; the message is the reason."""


def imported_rows(trajectory: Trajectory, script: Script) -> tuple[TokenRow, ...]:
    """The conversation as the model reads it and would have written it; its own messages are the spans.

    A message that does not continue the earlier tokens, as where a template shows earlier thoughts otherwise,
    begins a new row; each message is a span once. Raises UnwritableError where a message would be written otherwise
    than it was recorded.
    """
    try:
        recorded = transcript(trajectory)
        return _rows(recorded, script.fresh())
    except (RequestError, LostWordsError) as exc:
        raise UnwritableError(str(exc)) from exc


def _rows(recorded: Transcript, script: Script) -> tuple[TokenRow, ...]:
    rows: list[TokenRow] = []
    readable = (*recorded.tools, *_called(recorded))
    for answer in recorded.answers:
        request = ModelRequest("", recorded.messages[: answer.before], recorded.tools)
        prompt = script.prompt(request)
        # What it wrote is read back to compare, with the tools that it called although none were recorded.
        reading = replace(request, tools=readable)
        has_calls = any(isinstance(part, ToolCall) for part in answer.parts)
        written = script.write(
            prompt, ModelAnswer("", "", answer.parts, "tool_calls" if has_calls else "stop"), reading
        )
        script.remember(prompt, written, reading)
        start = len(prompt.token_ids)
        token_ids = (*prompt.token_ids, *written)
        span = WrittenSpan(answer.turn, start, len(token_ids))
        if rows and prompt.token_ids[: len(rows[-1].token_ids)] == rows[-1].token_ids:
            rows[-1] = replace(rows[-1], token_ids=token_ids, spans=(*rows[-1].spans, span))
        else:
            cause = (prompt.fork_cause or "history_changed") if rows else None
            rows.append(TokenRow(token_ids, (span,), (), cause))
    return tuple(rows)


def _called(recorded: Transcript) -> tuple[ToolDefinition, ...]:
    """The tools that were called without being offered."""
    offered = {tool.name for tool in recorded.tools}
    names = {
        part.name: part
        for answer in recorded.answers
        for part in answer.parts
        if isinstance(part, ToolCall) and part.name not in offered
    }
    return tuple(ToolDefinition(name, "", {"properties": _types(part)}) for name, part in names.items())


def _types(call: ToolCall) -> dict[str, JsonValue]:
    """The types of a call's arguments as JSON Schema."""
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    arguments = json_object(call.arguments) or {}
    return {key: {"type": kinds.get(type(value), "null")} for key, value in arguments.items()}
