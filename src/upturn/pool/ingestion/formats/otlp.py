"""Traces in OpenTelemetry's exchange format (OTLP), of GenAI or OpenInference instrumentation.

Files of the collector's file exporter: JSON, one request a line or one in the whole file, or protobuf, one
request or several with their lengths in four bytes before each. A conversation is one or several model calls of
a trace, see ``span``. The spans of a trace belong together where at most ``span_groups.OPEN_SPANS`` others are
between them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from pydantic_core import from_json

from upturn.pool.ingestion.formats.conversation import Defaults, Line, LineError, Lines, OpenFile
from upturn.pool.ingestion.formats.json_text import LARGEST_OBJECT, json_objects
from upturn.pool.ingestion.formats.otlp_protobuf import read_request
from upturn.pool.ingestion.formats.span import Span
from upturn.pool.ingestion.formats.span_groups import span_lines
from upturn.pool.ingestion.recording import DamagedFileError

_ERROR = 2
"""``STATUS_CODE_ERROR``"""


def read_otlp(open_file: OpenFile, defaults: Defaults) -> Lines:
    """Yields the conversations. Raises OSError."""
    with open_file() as file:
        yield from span_lines(_spans(file), defaults)


def request_spans(request: object) -> Iterator[Span | LineError]:
    """Yields the spans of a request in the JSON form; LineError for one that is none."""
    for resource in _entries(request, "resourceSpans", "resource_spans"):
        scopes = [
            *_entries(resource, "scopeSpans", "scope_spans"),
            *_entries(resource, "instrumentationLibrarySpans"),
        ]
        for scope in scopes:
            for span in _entries(scope, "spans"):
                try:
                    yield _span(span)
                except (ValueError, TypeError, AttributeError) as exc:
                    yield LineError(f"not a span: {exc}")


def _spans(file: BinaryIO) -> Iterator[Span | Line]:
    start = file.peek(64)[:64].lstrip(b"\xef\xbb\xbf \t\r\n")  # type: ignore[attr-defined]  # it is buffered
    requests = _json_requests(file) if start.startswith((b"{", b"[")) else _protobuf_requests(file)
    for request, text in requests:
        if isinstance(request, LineError):
            yield Line(0, request, text)
            continue
        for span in request_spans(request):
            yield Line(0, span) if isinstance(span, LineError) else span


def _json_requests(file: BinaryIO) -> Iterator[tuple[Any, bytes]]:
    for _, text in json_objects(file):
        yield (text, b"") if isinstance(text, LineError) else (_parsed(text), text)


def _parsed(text: bytes) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as exc:
        return LineError(f"not JSON: {exc}")


def _protobuf_requests(file: BinaryIO) -> Iterator[tuple[Any, bytes]]:
    try:
        head = file.read(5)
        size = int.from_bytes(head[:4], "big")
        if head[4:5] != b"\n" or not 0 < size <= LARGEST_OBJECT:
            content = head + file.read(LARGEST_OBJECT)
            yield _decoded(content), b""
            if file.read(1):
                yield LineError(f"the file is one request of more than {LARGEST_OBJECT} bytes"), b""
            return
        content = head[4:] + file.read(size - 1)
        while content:
            if len(content) < size:
                yield LineError(f"the last request has {len(content)} of {size} bytes"), b""
                return
            yield _decoded(content), b""
            size = int.from_bytes(file.read(4), "big")
            if size > LARGEST_OBJECT:
                yield LineError(f"a request of {size} bytes is too large; the rest of the file is not read"), b""
                return
            content = file.read(size)
    except DamagedFileError as exc:
        yield LineError(f"{exc}; the rest of the file is not read"), b""


def _decoded(content: bytes) -> Any:
    try:
        return read_request(content)
    except ValueError as exc:
        return LineError(f"not an OTLP request of traces: {exc}")


def _entries(node: object, *names: str) -> Iterator[Any]:
    found = next((node[name] for name in names if name in node), None) if isinstance(node, Mapping) else None
    if isinstance(found, list):
        yield from found


def _span(span: Mapping[str, Any]) -> Span:
    status = span.get("status") or {}
    is_failed = status.get("code") in (_ERROR, "STATUS_CODE_ERROR")
    trace_id = span.get("traceId", span.get("trace_id"))
    span_id = span.get("spanId", span.get("span_id"))
    if not isinstance(trace_id, str) or not isinstance(span_id, str) or not trace_id or not span_id:
        raise ValueError("traceId or spanId is missing")
    start = span.get("startTimeUnixNano", span.get("start_time_unix_nano", 0))
    return Span(
        trace_id,
        span_id,
        int(start),
        _attributes(span.get("attributes")),
        [(str(event.get("name", "")), _attributes(event.get("attributes"))) for event in span.get("events") or ()],
        (str(status.get("message") or "the call failed")) if is_failed else "",
    )


def _attributes(pairs: object) -> dict[str, Any]:
    if not isinstance(pairs, list):
        return {}
    return {
        str(pair["key"]): _value(pair.get("value")) for pair in pairs if isinstance(pair, dict) and "key" in pair
    }


def _value(value: Any) -> Any:
    """Returns an ``AnyValue`` as JSON."""
    if not isinstance(value, dict):
        return value
    for name, inner in value.items():
        match name:
            case "intValue" | "int_value":
                return int(inner)
            case "arrayValue" | "array_value":
                return [_value(entry) for entry in _entries(inner, "values")]
            case "kvlistValue" | "kvlist_value":
                return _attributes(inner.get("values"))
            case _:
                return inner
    return None
