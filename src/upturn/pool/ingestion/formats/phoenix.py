"""Phoenix's export of spans: JSON lines or a JSON array, of the client's ``get_spans`` or of its data frame.

``get_spans`` nests ids in ``context`` and has ``attributes`` with dotted names or nested; the data frame has
columns ``context.trace_id`` and ``attributes.llm.input_messages``. Annotations of a span (``annotations``, or
columns such as ``eval.Correctness.score``) are scores.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pydantic_core import from_json

from upturn.pool.ingestion.formats.conversation import Defaults, Line, LineError, Lines, OpenFile
from upturn.pool.ingestion.formats.json_text import json_objects
from upturn.pool.ingestion.formats.recorded import unit_score
from upturn.pool.ingestion.formats.span import Span
from upturn.pool.ingestion.formats.span_groups import span_lines


def read_phoenix(open_file: OpenFile, defaults: Defaults) -> Lines:
    """Yields the conversations. Raises OSError."""
    with open_file() as file:
        yield from span_lines(_spans(json_objects(file)), defaults)


def _spans(objects: Iterator[tuple[int, bytes | LineError]]) -> Iterator[Span | Line]:
    for number, text in objects:
        if isinstance(text, LineError):
            yield Line(number, text)
            continue
        try:
            yield _span(from_json(text, allow_inf_nan=False))
        except (ValueError, TypeError, AttributeError) as exc:
            yield Line(number, LineError(f"not a span of Phoenix: {exc}"), text)


def _span(raw: Any) -> Span:
    context = raw.get("context")
    ids = context if isinstance(context, dict) else {}
    trace_id = ids.get("trace_id") or raw.get("context.trace_id")
    span_id = ids.get("span_id") or raw.get("context.span_id")
    if not isinstance(trace_id, str) or not isinstance(span_id, str):
        raise ValueError("context.trace_id or context.span_id is missing")
    attributes: dict[str, Any] = {}
    _flatten("", raw.get("attributes") or {}, attributes)
    for name, value in raw.items():
        if name.startswith("attributes.") and value is not None:
            _flatten(name.removeprefix("attributes."), value, attributes)
    kind = raw.get("span_kind")
    if isinstance(kind, str):
        attributes.setdefault("openinference.span.kind", kind)
    failed = str(raw.get("status_code", "")).upper() == "ERROR"
    return Span(
        trace_id,
        span_id,
        _nanoseconds(raw.get("start_time")),
        attributes,
        error=str(raw.get("status_message") or "the call failed") if failed else "",
        scores=_scores(raw),
    )


def _scores(raw: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, Any] = {}
    for name, value in raw.items():
        if name.startswith("eval.") and name.endswith(".score"):
            found[name.removeprefix("eval.").removesuffix(".score")] = value
    for annotation in raw.get("annotations") or ():
        result = annotation.get("result") or {}
        found[str(annotation.get("name", "score"))] = result.get("score")
    return {name: score for name, value in found.items() if (score := unit_score(value)) is not None}


def _flatten(prefix: str, value: Any, into: dict[str, Any]) -> None:
    """Writes nested attributes with dotted names; JSON text of tools stays text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{prefix}.{key}" if prefix else str(key), inner, into)
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        for index, inner in enumerate(value):
            _flatten(f"{prefix}.{index}", inner, into)
    elif value is not None:
        into[prefix] = value


def _nanoseconds(value: Any) -> int:
    if isinstance(value, bool):
        return 0
    if isinstance(value, int | float):
        return int(value) * (1 if value > 1e17 else 1_000_000)  # milliseconds, as data frames write them
    if isinstance(value, str):
        try:
            return int(datetime.fromisoformat(value).timestamp() * 1e9)
        except ValueError:
            return 0
    return 0
