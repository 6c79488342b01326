"""Tags of tasks: short texts by which their trajectories are selected and counted.

A tag is feedback on the task: ``metric`` is ``tag:`` and its name, ``value`` 1 sets and 0 removes it; the latest
one counts. So tags are records like all others: they are appended, in the audit log, exported and erased, and what
was tagged at an earlier sequence number can be read again. Not here: reading and changing the tags of a pool
(``tagging``).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import ColumnElement, Select, Subquery, and_, case, func, select

from upturn.pool.row import digest
from upturn.pool.schema import feedback, tasks
from upturn.records import Feedback

TAG_METRIC = "tag:"
"""Begins the metric of a tag."""
LONGEST_TAG = 64
MOST_TAGS = 32
"""Of an imported conversation."""
TAG_RULE = f"1 to {LONGEST_TAG} printable characters without a space at its ends"
_ID_LENGTH = 32
_EVER = 2**62


class TagChange(NamedTuple):
    """A tag of a task that is set or removed."""

    task_id: str
    tag: str
    is_set: bool = True


def is_tag(text: object) -> bool:
    """Returns whether this is a valid name of a tag, see ``TAG_RULE``."""
    return isinstance(text, str) and 0 < len(text) <= LONGEST_TAG and text.isprintable() and text == text.strip()


def imported_tag(task_id: str, tag: str, *, tenant: str) -> Feedback:
    """Returns the record of a tag that a source gives its task: the same each time that it is imported."""
    name = digest(tenant, task_id, tag)[:_ID_LENGTH]
    return _record(f"tag:{name}", TagChange(task_id, tag), tenant, "")


def tag_record(change: TagChange, *, tenant: str, comment: str = "") -> Feedback:
    """Returns a new record of a change; raises ValueError for a name that is no tag."""
    if not is_tag(change.tag):
        raise ValueError(f"a tag has {TAG_RULE}, got {change.tag!r:.100}")
    return _record(f"tag:{uuid4().hex}", change, tenant, comment)


def _record(record_id: str, change: TagChange, tenant: str, comment: str) -> Feedback:
    return Feedback(
        id=record_id,
        subject_kind="task",
        subject_id=change.task_id,
        metric=TAG_METRIC + change.tag,
        value=float(change.is_set),
        tenant=tenant,
        comment=comment,
    )


def tags_until(until: int = _EVER) -> Select[Any]:
    """Returns a query for the tags that tasks have: tenant, task_id, task (its sequence number) and metric.

    ``until``: what was stored up to this sequence number.
    """
    last_set = func.max(case((feedback.c.value > 0, feedback.c.sequence), else_=0))
    last_removed = func.max(case((feedback.c.value > 0, 0), else_=feedback.c.sequence))
    columns = (tasks.c.tenant, tasks.c.id.label("task_id"), tasks.c.sequence.label("task"), feedback.c.metric)
    is_owned = and_(tasks.c.id == feedback.c.subject_id, tasks.c.tenant == feedback.c.tenant)
    return (
        select(*columns)
        .join_from(feedback, tasks, is_owned)
        .where(feedback.c.subject_kind == "task", feedback.c.sequence <= until)
        .where(feedback.c.metric >= TAG_METRIC, feedback.c.metric < TAG_METRIC[:-1] + ";")  # begins with it
        .group_by(*columns)
        .having(last_set > last_removed)
    )


def tagged_tasks(tag: str, until: int | None = None) -> Subquery:
    """Returns the rows of ``tags_until`` of one tag; ``until`` None = as it is now."""
    return tags_until(_EVER if until is None else until).where(feedback.c.metric == TAG_METRIC + tag).subquery()


def tagged(task_id: ColumnElement[str], tags: Iterable[str], until: int) -> list[ColumnElement[bool]]:
    """Returns the conditions that a column is the id of a task that has all these tags."""
    return [task_id.in_(select(tagged_tasks(tag, until).c.task_id)) for tag in tags]
