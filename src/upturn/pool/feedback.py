"""What people said of attempts, from a file into the pool: thumbs, corrections and other values.

JSON lines, one thing said each:

    {"trajectory": "<id>", "thumbs": 1}
    {"trajectory": "<id>", "correction": "<id of the trajectory that is better>"}
    {"decision": "<id>", "metric": "minutes saved", "value": 12.5}

Optional: ``comment``, and ``id``, the name that the source gives to what was said: lines without one that say the
same are one, in whatever order their keys stand. A line that cannot be used is quarantined with the reason, and the
others go in. The same file twice adds nothing twice.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic_core import from_json, to_json

from upturn.errors import IngestError, RecordError, StoreConflictError
from upturn.pool.batch import Quarantined
from upturn.pool.formats import LineError, text_lines
from upturn.pool.preference import CORRECTION, THUMBS
from upturn.pool.row import digest
from upturn.pool.store import Pool
from upturn.records import Feedback, FeedbackSubject, fields_json

KeyT = TypeVar("KeyT", bound=str)

SUBJECTS: tuple[FeedbackSubject, ...] = get_args(FeedbackSubject)
_VALUES = (THUMBS, CORRECTION, "metric")
_KEYS = frozenset({*SUBJECTS, *_VALUES, "value", "comment", "id"})
_LINES_PER_BATCH = 200
_ID_LENGTH = 32
"""Hexadecimal digits of a content id: 128 bits."""


class FeedbackReport(NamedTuple):
    """What became of a file."""

    path: str
    lines: int
    added: int
    """Feedback that is new."""
    known: int
    """Feedback that was stored already, or stood in the file twice."""
    quarantined: tuple[Quarantined, ...]


class _Said(NamedTuple):
    line: int
    feedback: Feedback


def ingest_feedback(pool: Pool, path: Path, *, tenant: str = "default") -> FeedbackReport:
    """Takes the file in. What is said of trajectories must be of such as the tenant has, and a correction must be
    an attempt at the same task. Raises IngestError for a file that cannot be read, or that says nothing.
    """
    tasks = {each.trajectory_id: each.task_id for each in pool.selected(tenant=tenant)}
    quarantined: list[Quarantined] = []
    lines = added = known = 0
    try:
        found = _parsed(path, tenant, tasks)
        while page := list(islice(found, _LINES_PER_BATCH)):
            lines += len(page)
            quarantined += (each for each in page if isinstance(each, Quarantined))
            said = [each for each in page if isinstance(each, _Said)]
            fresh, refused = _stored(pool, said)
            quarantined += refused
            added += fresh
            known += len(said) - len(refused) - fresh
    except OSError as exc:
        raise IngestError(f"{str(path)!r} cannot be read: {exc.strerror}; name a file that exists") from exc
    if not lines:
        raise IngestError(f"{str(path)!r} holds no feedback; check the file")
    return FeedbackReport(str(path), lines, added, known, tuple(quarantined))


def _stored(pool: Pool, page: list[_Said]) -> tuple[int, list[Quarantined]]:
    """How many are new, and those that contradict what is stored."""
    try:
        return pool.add_feedback(*(said.feedback for said in page)), []
    except StoreConflictError:
        added, refused = 0, []
        for said in page:
            try:
                added += pool.add_feedback(said.feedback)
            except StoreConflictError as exc:
                refused.append(Quarantined(said.line, str(exc)))
        return added, refused


def _parsed(path: Path, tenant: str, tasks: Mapping[str, str]) -> Iterator[_Said | Quarantined]:
    """``tasks``: of the tenant's trajectories."""
    for number, text in text_lines(path):
        try:
            if isinstance(text, LineError):
                raise text
            yield _Said(number, _feedback(text, tenant, tasks))
        except (LineError, RecordError) as exc:
            yield Quarantined(number, str(exc))


def _feedback(text: bytes, tenant: str, tasks: Mapping[str, str]) -> Feedback:
    """Raises LineError, and RecordError for text that cannot be stored."""
    try:
        raw = from_json(text, allow_inf_nan=False)
    except ValueError as exc:
        raise LineError(f"not JSON: {exc}") from exc
    if not isinstance(raw, dict):
        raise LineError('a line must be an object {"trajectory": …, "thumbs": …}')
    unknown = sorted(raw.keys() - _KEYS)
    if unknown:
        raise LineError(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}")
    kind, subject = _one_of(raw, SUBJECTS)
    if kind == "trajectory" and subject not in tasks:
        raise LineError(f"the tenant has no trajectory {subject!r}; store it first, or look at the tenant")
    metric, value, refers_to = _value(raw)
    if metric in (THUMBS, CORRECTION) and kind != "trajectory":
        raise LineError(f"{metric} are said of trajectories, this line names a {kind}")
    if refers_to is not None and tasks.get(refers_to) != tasks[subject]:
        raise LineError(
            f"the correction {refers_to!r} is no attempt at task {tasks[subject]!r} that the tenant has, as "
            f"{subject!r} is; store it first"
        )
    name = raw.get("id")
    said = to_json(dict(sorted(raw.items()))).decode() if name is None else _text(name, "id")
    feedback = Feedback(
        id=f"imported:{digest(tenant, '' if name is None else 'id', said)[:_ID_LENGTH]}",
        subject_kind=kind,
        subject_id=subject,
        metric=metric,
        value=value,
        tenant=tenant,
        comment=_text(raw.get("comment", ""), "comment"),
        refers_to=refers_to,
    )
    fields_json(feedback)
    return feedback


def _one_of(raw: Mapping[str, Any], keys: tuple[KeyT, ...]) -> tuple[KeyT, str]:
    """The one of these keys that the line has, and its text."""
    found = [key for key in keys if key in raw]
    if len(found) != 1:
        raise LineError(f"a line names exactly one of {', '.join(keys)}, got {', '.join(found) or 'none'}")
    return found[0], _text(raw[found[0]], found[0])


def _value(raw: Mapping[str, Any]) -> tuple[str, float, str | None]:
    """Metric, value and what it refers to."""
    found = [key for key in _VALUES if key in raw]
    if len(found) != 1:
        raise LineError(f"a line says exactly one of {', '.join(_VALUES)}, got {', '.join(found) or 'none'}")
    if (found[0] == "metric") != ("value" in raw):
        raise LineError("metric and value belong together; give both or neither")
    if found[0] == CORRECTION:
        return CORRECTION, 1.0, _text(raw[CORRECTION], CORRECTION)
    if found[0] == THUMBS:
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
