"""Evidence out of the pool, one record a line, anonymised unless it is asked for as it is.

Anonymising replaces every privacy finding (``upturn.pool.privacy`` says what that covers and what not) in texts
that people, agents and environments wrote. A trajectory in which something was replaced also loses its token
rows, for they spell the same text. Ids, names of agents, families and tenants stay, so that records still
belong together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from pydantic_core import from_json, to_json

from upturn.pool.privacy import redacted
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Selection
from upturn.records import Decision, Evaluation, Feedback, Task, Trajectory, fields_json, from_fields
from upturn.records import to_json as record_line

RecordT = TypeVar("RecordT")

_WRITTEN: Mapping[type[Any], tuple[str, ...]] = {
    Task: ("instruction", "context"),
    Decision: ("reason",),
    Trajectory: ("turns", "final_observation", "final_state", "error"),
    Evaluation: ("gates",),
    Feedback: ("comment",),
}
"""The fields of each record that hold what somebody or something wrote."""


class Exported(NamedTuple):
    """One record on its way out."""

    line: str
    """Versioned JSON, as ``records.from_json`` reads it."""
    is_changed: bool
    """True when anonymising replaced something."""


def anonymise(record: RecordT) -> RecordT:
    """The record without privacy findings; the very same record where there are none."""
    fields = from_json(fields_json(record))
    clean = fields | {name: redacted(fields[name]) for name in _WRITTEN[type(record)]}
    if clean == fields:
        return record
    built = from_fields(type(record), to_json(clean))
    return replace(built, rows=()) if isinstance(built, Trajectory) else built


def export(
    pool: PoolReader, *, tenant: str, selection: Selection = EVERYTHING, is_anonymised: bool = True
) -> Iterator[Exported]:
    """The tenant's decisions and feedback, and the selected trajectories with their task and last evaluation.

    A task comes before its first trajectory.
    """
    for record in _records(pool, tenant, selection):
        written = anonymise(record) if is_anonymised else record
        yield Exported(record_line(written), written is not record)


def _records(pool: PoolReader, tenant: str, selection: Selection) -> Iterator[object]:
    yield from pool.decisions(tenant=tenant)
    seen: set[str] = set()
    for task, trajectory, evaluation in pool.experiences(selection, tenant=tenant):
        if task.id not in seen:
            seen.add(task.id)
            yield task
        yield trajectory
        if evaluation is not None:
            yield evaluation
    yield from pool.feedback(tenant=tenant)
