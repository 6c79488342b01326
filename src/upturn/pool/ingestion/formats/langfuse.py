"""Langfuse's exports: traces downloaded as JSON, observations as JSON lines or an array, blob storage exports.

A downloaded trace has its ``observations`` and ``scores``. Rows of observations have the API's names (``traceId``,
``startTime``) or those of the blob storage (``trace_id``, ``start_time``, ``provided_model_name``). Generations are
model calls; a trace without any is one, with its own input and output. Scores from 0 to 1 are the reward where a
conversation has one.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json

from upturn.pool.ingestion.formats.conversation import Defaults, Line, LineError, Lines, OpenFile
from upturn.pool.ingestion.formats.json_text import json_objects
from upturn.pool.ingestion.formats.recorded import unit_score
from upturn.pool.ingestion.formats.span import Span
from upturn.pool.ingestion.formats.span_groups import span_lines

_GENERATION = "GENERATION"


def read_langfuse(open_file: OpenFile, defaults: Defaults) -> Lines:
    """Yields the conversations. Raises OSError."""
    with open_file() as file:
        yield from span_lines(_spans(file), defaults)


def _spans(file: Any) -> Iterator[Span | Line]:
    for number, text in json_objects(file):
        if isinstance(text, LineError):
            yield Line(number, text)
            continue
        try:
            yield from _row_spans(from_json(text, allow_inf_nan=False))
        except (ValueError, TypeError, AttributeError) as exc:
            yield Line(number, LineError(f"not a trace or an observation of Langfuse: {exc}"), text)


def _row_spans(row: Any) -> Iterator[Span]:
    trace = row.get("trace") if isinstance(row.get("trace"), dict) else row
    observations = row.get("observations", trace.get("observations"))
    if observations is None and "type" in row:
        if row["type"] == _GENERATION:
            yield _span(row, row, ())
        return
    scores = row.get("scores") or trace.get("scores") or ()
    found = [part for part in observations or () if isinstance(part, dict) and part.get("type") == _GENERATION]
    for part in found or [trace | {"traceId": trace.get("id")}]:
        yield _span(part, trace, scores)


def _span(part: Mapping[str, Any], trace: Mapping[str, Any], scores: Sequence[Any]) -> Span:
    trace_id, span_id = _first(part, "traceId", "trace_id"), part.get("id")
    if not isinstance(trace_id, str) or not isinstance(span_id, str):
        raise ValueError("id or traceId is missing")
    asked, tools = _asked(_value(part.get("input")))
    told = _told(_value(part.get("output")))
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt": asked,
        "gen_ai.completion": told,
        "gen_ai.tool.definitions": tools,
        "gen_ai.request.model": _first(part, "model", "provided_model_name", "providedModelName"),
        "gen_ai.conversation.id": _first(part, "sessionId", "session_id")
        or _first(trace, "sessionId", "session_id"),
        "langfuse.trace.tags": _first(trace, "tags") or _first(part, "traceTags", "trace_tags"),
        "gen_ai.agent.name": _first(part, "traceName", "trace_name") or trace.get("name"),
    }
    own = [score for score in scores if score.get("observationId") in (None, span_id)]
    values = {str(score.get("name")): unit_score(score.get("value")) for score in own}
    failed = part.get("level") == "ERROR"
    return Span(
        trace_id,
        span_id,
        _nanoseconds(_first(part, "startTime", "start_time", "timestamp")),
        {name: value for name, value in attributes.items() if value is not None},
        error=str(_first(part, "statusMessage", "status_message") or "the call failed") if failed else "",
        scores={name: value for name, value in values.items() if value is not None},
    )


def _first(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _value(value: Any) -> Any:
    """Returns what is JSON text in the exports of tables."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return from_json(value, allow_inf_nan=False)
        except ValueError:
            return value
    return value


def _asked(value: Any) -> tuple[list[Any], list[Any] | None]:
    """Returns the messages of an input, and the tools in it."""
    tools = value.get("tools") if isinstance(value, dict) else None
    messages = value.get("messages", value) if isinstance(value, dict) else value
    if isinstance(messages, dict) and "role" not in messages:
        messages = str(messages)
    if messages is None:
        return [], tools
    listed = messages if isinstance(messages, list) else [messages]
    return [
        message if isinstance(message, dict) else {"role": "user", "content": str(message)} for message in listed
    ], (tools if isinstance(tools, list) else None)


def _told(value: Any) -> list[Any]:
    """Returns the messages of an output."""
    if value is None or value == "":
        return []
    if isinstance(value, dict) and isinstance(value.get("choices"), list) and value["choices"]:
        value = value["choices"][0].get("message")
    if isinstance(value, list):
        value = next((entry for entry in value if isinstance(entry, dict)), str(value))
    if isinstance(value, dict) and not value.keys() & {"role", "content", "tool_calls"}:
        value = str(value)
    return [value if isinstance(value, dict) else {"role": "assistant", "content": str(value)}]


def _nanoseconds(value: Any) -> int:
    if not isinstance(value, str):
        return 0
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e9)
