"""Export of records, one per line, anonymised by default.

Anonymising replaces every privacy finding (``privacy`` lists what is covered) in texts of people, agents and
environments. A trajectory with a replacement also loses its token rows, which contain the same text. Ids and the
names of agents, families and tenants stay, so that records still refer to each other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from pydantic_core import from_json, to_json

from upturn.pool.privacy import redact_json
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Selection
from upturn.records import Decision, Evaluation, Feedback, Task, Trajectory, fields_json, from_fields
from upturn.records import to_json as record_line

RecordT = TypeVar("RecordT")

_TEXT_FIELDS: Mapping[type[Any], tuple[str, ...]] = {
    Task: ("instruction", "context"),
    Decision: ("reason",),
    Trajectory: ("turns", "final_observation", "final_state", "error"),
    Evaluation: ("gates",),
    Feedback: ("comment",),
}
"""Fields with text of people, agents or environments, by class of record."""


class Exported(NamedTuple):
    """One exported record."""

    line: str
    """Versioned JSON for ``records.from_json``."""
    is_changed: bool
    """True if anonymising replaced something."""


def anonymise(record: RecordT) -> RecordT:
    """Returns the record without privacy findings; the same object if it has none."""
    fields = from_json(fields_json(record))
    clean = fields | {name: redact_json(fields[name]) for name in _TEXT_FIELDS[type(record)]}
    if clean == fields:
        return record
    anonymous = from_fields(type(record), to_json(clean))
    return replace(anonymous, rows=()) if isinstance(anonymous, Trajectory) else anonymous


def export(
    pool: PoolReader, *, tenant: str, selection: Selection = EVERYTHING, is_anonymised: bool = True
) -> Iterator[Exported]:
    """Yields the tenant's decisions and feedback, and the selected trajectories with task and latest evaluation.

    A task precedes its first trajectory.
    """
    for record in _records(pool, tenant, selection):
        exported = anonymise(record) if is_anonymised else record
        yield Exported(record_line(exported), exported is not record)


def _records(pool: PoolReader, tenant: str, selection: Selection) -> Iterator[object]:
    yield from pool.decisions(tenant=tenant)
    exported: set[str] = set()
    for task, trajectory, evaluation in pool.experiences(selection, tenant=tenant):
        if task.id not in exported:
            exported.add(task.id)
            yield task
        yield trajectory
        if evaluation is not None:
            yield evaluation
    yield from pool.feedback(tenant=tenant)
