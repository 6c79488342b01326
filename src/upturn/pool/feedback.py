"""Import of feedback from a file: thumbs-up/down ratings, corrections and other values.

JSON lines, one feedback value per line:

    {"trajectory": "<id>", "thumbs": 1}
    {"trajectory": "<id>", "correction": "<id of the better trajectory>"}
    {"decision": "<id>", "metric": "minutes saved", "value": 12.5}

Optional keys: ``comment``, and ``id``, the source's id of the value. Equal lines without ``id`` are one value. An
unusable line is quarantined with the reason; the others are stored. Importing a file again adds nothing.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic_core import from_json, to_json

from upturn.config import THUMBS
from upturn.errors import IngestError, RecordError
from upturn.pool.access import Border
from upturn.pool.batch import store_page
from upturn.pool.imported import Quarantined
from upturn.pool.ingestion.formats import LineError, text_lines
from upturn.pool.preference import CORRECTION
from upturn.pool.row import digest
from upturn.pool.store import Pool
from upturn.records import Feedback, FeedbackSubject, fields_json

KeyT = TypeVar("KeyT", bound=str)

SUBJECTS: tuple[FeedbackSubject, ...] = ("trajectory", "decision", "episode")
"""Of the lines of a file; those of tasks are tags."""
_VALUES = (THUMBS, CORRECTION, "metric")
_KEYS = frozenset({*SUBJECTS, *_VALUES, "value", "comment", "id"})
_LINES_PER_BATCH = 200
_ID_LENGTH = 32
"""Hexadecimal digits of a content id: 128 bits."""


class FeedbackReport(NamedTuple):
    """The result of importing a file."""

    path: str
    lines: int
    added: int
    """Number of new feedback values."""
    known: int
    """Number of feedback values that are stored already or repeated in the file."""
    quarantined: tuple[Quarantined, ...]


def ingest_feedback(pool: Pool, path: Path, *, tenant: str = "default") -> FeedbackReport:
    """Imports the file; raises IngestError if it cannot be read or has no feedback.

    Feedback on a trajectory needs that trajectory in the tenant's pool, and a correction one of the same task.
    """
    tasks = {row.trajectory_id: row.task_id for row in pool.selected(tenant=tenant)}
    quarantined: list[Quarantined] = []
    lines = added = known = 0
    try:
        parsed_lines = _parse_lines(path, tenant, tasks, Border(pool))
        while page := list(islice(parsed_lines, _LINES_PER_BATCH)):
            lines += len(page)
            quarantined += (line for line in page if isinstance(line, Quarantined))
            parsed = [line for line in page if not isinstance(line, Quarantined)]
            new, conflicts = store_page(lambda values: pool.append(*values), parsed)
            quarantined += conflicts
            added += new
            known += len(parsed) - len(conflicts) - new
    except OSError as exc:
        raise IngestError(f"{str(path)!r} cannot be read: {exc.strerror}; name a file that exists") from exc
    if not lines:
        raise IngestError(f"{str(path)!r} has no feedback; check the file")
    return FeedbackReport(str(path), lines, added, known, tuple(quarantined))


def _parse_lines(
    path: Path, tenant: str, tasks: Mapping[str, str], border: Border
) -> Iterator[tuple[int, Feedback] | Quarantined]:
    """Yields (line, feedback) or the bad line; ``tasks`` has the task ids of the tenant's trajectories."""
    for number, text in text_lines(path):
        try:
            if isinstance(text, LineError):
                raise text
            yield number, _feedback(text, tenant, tasks, border)
        except (LineError, RecordError) as exc:
            yield Quarantined(number, str(exc))


def _feedback(text: bytes, tenant: str, tasks: Mapping[str, str], border: Border) -> Feedback:
    """Returns the feedback of a line, as it is stored; raises LineError, and RecordError for unusable text."""
    try:
        raw = from_json(text, allow_inf_nan=False)
    except ValueError as exc:
        raise LineError(f"not JSON: {exc}") from exc
    if not isinstance(raw, dict):
        raise LineError('a line must be an object {"trajectory": …, "thumbs": …}')
    comment = border.stored_text(_text(raw.get("comment", ""), "comment"), tenant=tenant)
    raw |= {"comment": comment} if comment else {}
    unknown = sorted(raw.keys() - _KEYS)
    if unknown:
        raise LineError(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}")
    kind = _only_key(raw, SUBJECTS, "names")
    subject = _text(raw[kind], kind)
    if kind == "trajectory" and subject not in tasks:
        raise LineError(f"the tenant has no trajectory {subject!r}; store it first, or check the tenant")
    metric, value, refers_to = _value(raw)
    if metric in (THUMBS, CORRECTION) and kind != "trajectory":
        raise LineError(f"{metric} is feedback on a trajectory, but this line names a {kind}")
    if refers_to is not None and tasks.get(refers_to) != tasks[subject]:
        raise LineError(
            f"the tenant has no trajectory {refers_to!r} of task {tasks[subject]!r}, the task of {subject!r}; "
            "store it first"
        )
    name = raw.get("id")
    key = to_json(dict(sorted(raw.items()))).decode() if name is None else _text(name, "id")
    feedback = Feedback(
        id=f"imported:{digest(tenant, '' if name is None else 'id', key)[:_ID_LENGTH]}",
        subject_kind=kind,
        subject_id=subject,
        metric=metric,
        value=value,
        tenant=tenant,
        comment=comment,
        refers_to=refers_to,
    )
    fields_json(feedback)
    return feedback


def _only_key(raw: Mapping[str, Any], keys: tuple[KeyT, ...], verb: str) -> KeyT:
    """Returns the key that the line has; raises LineError unless it is exactly one."""
    present = [key for key in keys if key in raw]
    if len(present) != 1:
        raise LineError(f"a line {verb} exactly one of {', '.join(keys)}, got {', '.join(present) or 'none'}")
    return present[0]


def _value(raw: Mapping[str, Any]) -> tuple[str, float, str | None]:
    """Returns metric, value and ``refers_to``."""
    key = _only_key(raw, _VALUES, "has")
    if (key == "metric") != ("value" in raw):
        raise LineError("metric and value belong together; set both or neither")
    if key == CORRECTION:
        return CORRECTION, 1.0, _text(raw[CORRECTION], CORRECTION)
    if key == THUMBS:
        return THUMBS, _number(raw[THUMBS], THUMBS), None
    metric = _text(raw["metric"], "metric")
    if metric in (THUMBS, CORRECTION):
        raise LineError(f"metric {metric!r} has a key of its own; write {{{metric!r}: …}}")
    return metric, _number(raw["value"], "value"), None


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or (not value and name != "comment"):
        raise LineError(f"{name} must be text, got {value!r:.100}")
    return value


def _number(value: object, name: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or (name == THUMBS and value == 0):  # type: ignore[arg-type]
        allowed = "a number above 0 (good) or below 0 (bad)" if name == THUMBS else "a finite number"
        raise LineError(f"{name} must be {allowed}, got {value!r:.100}")
    return float(value)  # type: ignore[arg-type]
