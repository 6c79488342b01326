"""Traces that a client sends over HTTP (OTLP): their model calls become trajectories at once.

The spans of one request belong together; a trace that is sent in several requests gives a trajectory for each part
that is a conversation of its own. Sending a request again adds nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pydantic_core import from_json

from upturn.errors import IngestError, RecordError, StoreConflictError
from upturn.pool.ingestion.borders import keep_borders
from upturn.pool.ingestion.conversion import Origin, Point, point_of, task_of, trajectory_of
from upturn.pool.ingestion.formats import (
    Conversation,
    Defaults,
    Line,
    LineError,
    Span,
    read_request,
    request_spans,
    span_lines,
)
from upturn.pool.privacy import Replacer, anonymise, replace_text
from upturn.pool.row import ReadyRow
from upturn.pool.store import Pool


class Received(NamedTuple):
    """What became of a request."""

    added: int
    """Number of new trajectories."""
    known: int
    rejected: tuple[str, ...]
    """Why model calls were not stored."""


def receive_traces(
    pool: Pool, content: bytes, *, tenant: str, is_json: bool, replacer: Replacer | None = None
) -> Received:
    """Stores the model calls of an ``ExportTraceServiceRequest``; returns once they are durable.

    ``replacer``: replaces personal data and secrets before anything is stored; None = nothing is replaced.
    Raises IngestError for content that is no such request, and StoreError if the pool fails.
    """
    try:
        request = from_json(content, allow_inf_nan=False) if is_json else read_request(content)
    except ValueError as exc:
        kind = "JSON" if is_json else "protobuf"
        raise IngestError(f"the body is no ExportTraceServiceRequest in {kind}: {exc}") from exc
    if not isinstance(request, dict):
        raise IngestError("the body is no ExportTraceServiceRequest: it must be an object with resourceSpans")
    spans: list[Span | Line] = [
        Line(0, span) if isinstance(span, LineError) else span for span in request_spans(request)
    ]
    origin = Origin("otlp", tenant)
    added = known = 0
    rejected: list[str] = []
    for line in span_lines(spans, Defaults()):
        try:
            if isinstance(line.content, LineError):
                raise line.content
            is_new = _store(pool, _point(line.content, origin, replacer))
        except (LineError, RecordError, StoreConflictError) as exc:
            rejected.append(str(exc))
        else:
            added, known = added + is_new, known + (not is_new)
    return Received(added, known, tuple(rejected))


def _point(conversation: Conversation, origin: Origin, replacer: Replacer | None) -> Point:
    if replacer is not None:  # a task's id is a hash, and that of the original would confirm a guess of it
        tags = [replace_text(tag, replacer) for tag in conversation.tags]
        task_key = replace_text(conversation.task_key, replacer)
        conversation = replace(conversation, task_key=task_key, tags=tags)
    task = task_of(conversation, origin)
    trajectory = trajectory_of(conversation, task, origin)
    if replacer is not None:
        task, clean = anonymise(task, replacer), anonymise(trajectory, replacer)
        trajectory = keep_borders(trajectory, clean, replacer)
    return point_of(conversation, task, trajectory, origin, content="", number=None)


def _store(pool: Pool, point: Point) -> bool:
    """Returns whether the trajectory is new. A stored task stays."""
    task_id = str(point.task.values["id"])
    is_stored = next(iter(pool.tasks(tenant=str(point.task.values["tenant"]), ids=[task_id])), None) is not None
    rows: Sequence[ReadyRow] = point.results if is_stored else (point.task, *point.results)
    is_new = pool.submit(*rows).result() > (0 if is_stored else 1)
    if point.tags:
        pool.submit(*point.tags).result()
    return is_new
