"""Records that programs report, as JSON, for the collector.

An object has one of ``decision``, ``trajectory``, ``evaluation`` with the fields of the record, and may have
``task`` with those of its task. ``tenant`` may be left out of decisions and tasks.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic_core import from_json, to_json

from upturn.errors import IngestError, RecordError, StoreConflictError, UnknownNameError
from upturn.pool.answers.answer import Answer
from upturn.pool.collector import Collector
from upturn.pool.ingestion.formats import LineError, text_lines
from upturn.records import Decision, Evaluation, JsonValue, Result, Task, Trajectory, from_fields

LoggedKind: TypeAlias = Literal["decision", "trajectory", "evaluation"]
_KINDS: Mapping[LoggedKind, type[Any]] = {"decision": Decision, "trajectory": Trajectory, "evaluation": Evaluation}
_OF_TENANT = (Decision, Task)
RecordT = TypeVar("RecordT", Decision, Trajectory, Evaluation, Task)


class Logged(NamedTuple):
    """What became of reported records."""

    added: int
    known: int
    refused: list[tuple[int, str]]
    """Numbers of lines with the reasons."""


def read_logged(content: Mapping[str, Any], collector: Collector, *, tenant: str) -> Logged:
    """Stores one object; raises RecordError for one that is no such object, and the collector's errors."""
    kinds = [kind for kind in _KINDS if kind in content]
    unknown = sorted(content.keys() - {*_KINDS, "task"})
    if len(kinds) != 1 or unknown:
        got = ", ".join(sorted(content)) or "nothing"
        raise RecordError(f"an object has one of {', '.join(_KINDS)}, and may have task; got {got:.200}")
    [kind] = kinds
    if kind == "evaluation" and "task" in content:
        raise RecordError("an evaluation is of a stored trajectory; leave out task")
    record = _record(_KINDS[kind], content[kind], tenant)
    task = _record(Task, content["task"], tenant) if content.get("task") is not None else None
    if isinstance(record, Decision):
        added = collector.log_routing_decision(record, task)
    elif isinstance(record, Trajectory):
        added = collector.log_execution(record, task)
    else:
        added = collector.log_evaluation(record)
    return Logged(added, 1 + (task is not None) - added, [])


def log_lines(path: Path, collector: Collector, *, tenant: str) -> Logged:
    """Stores the objects of a file of JSON lines; lines that cannot be used are refused with their reasons.

    Raises IngestError for a file that cannot be read."""
    added = known = 0
    refused: list[tuple[int, str]] = []
    for number, text in _lines(path):
        try:
            if isinstance(text, LineError):
                raise text
            parsed = from_json(text, allow_inf_nan=False)
            if not isinstance(parsed, dict):
                raise RecordError("a line must be a JSON object")
            done = read_logged(parsed, collector, tenant=tenant)
        except (LineError, RecordError, StoreConflictError, UnknownNameError) as exc:
            refused.append((number, str(exc)))
        except ValueError as exc:
            refused.append((number, f"not JSON: {exc}"))
        else:
            added, known = added + done.added, known + done.known
    return Logged(added, known, refused)


def logged_answer(logged: Logged, *, tenant: str) -> Answer:
    """Returns the figures of what was reported."""
    results = [
        Result("added", float(logged.added), "records"),
        Result("known", float(logged.known), "records"),
        Result("refused", float(len(logged.refused)), "lines", bar="<= 0", holds=not logged.refused),
    ]
    refused: list[JsonValue] = [{"line": line, "reason": reason} for line, reason in logged.refused]
    return Answer(results, {"tenant": tenant, "refused": refused})


def _record(cls: type[RecordT], fields: Any, tenant: str) -> RecordT:
    if not isinstance(fields, dict):
        raise RecordError(f"not a {cls.__name__}: it must be an object with the fields of the record")
    given = {"tenant": tenant} | fields if cls in _OF_TENANT else fields
    return from_fields(cls, to_json(given))


def _lines(path: Path) -> Iterator[tuple[int, bytes | LineError]]:
    try:
        yield from text_lines(path)
    except OSError as exc:
        raise IngestError(f"{str(path)!r} cannot be read: {exc.strerror}; name a file that exists") from exc
