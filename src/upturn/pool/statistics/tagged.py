"""Trajectories and successes by tag of their tasks."""

from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import case, func, select

from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection, in_scope, select_trajectories
from upturn.pool.tags import TAG_METRIC, tags_until

MOST_COUNTED = 100
"""Tags with the most tasks, each of which is a query."""
_EVER = 2**62


class TagStatistics(NamedTuple):
    """Counts of the trajectories of tasks with one tag."""

    tag: str
    tasks: int
    trajectories: int
    successes: int
    missing: int


def tag_statistics(pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING) -> list[TagStatistics]:
    """Returns the counts of the selected trajectories by tag, in alphabetical order; one may be under several.

    Only the ``MOST_COUNTED`` tags with the most tasks are counted, and none without a trajectory.
    """
    tags = tags_until().subquery("tags")
    number = func.count()
    frequent = select(tags.c.metric).where(*in_scope(tags.c.tenant, tenant)).group_by(tags.c.metric)
    frequent = frequent.order_by(number.desc(), tags.c.metric).limit(MOST_COUNTED)
    with pool.engine.connect() as connection:
        names = sorted(metric.removeprefix(TAG_METRIC) for metric in connection.execute(frequent).scalars())
        rows = [(name, *connection.execute(_counted(selection, tenant, name)).one()) for name in names]
    return [TagStatistics(*row) for row in rows if row[2]]


def _counted(selection: Selection, tenant: Scope, tag: str) -> Any:
    """Returns a query for the numbers of a tag."""
    selected = select_trajectories(replace(selection, tags=(*selection.tags, tag)), tenant, until=_EVER).subquery()

    def number_of(verdict: str) -> Any:
        return func.coalesce(func.sum(case((selected.c.verdict == verdict, 1), else_=0)), 0)

    return select(
        func.count(selected.c.task_id.distinct()), func.count(), number_of("success"), number_of("missing")
    ).select_from(selected)
