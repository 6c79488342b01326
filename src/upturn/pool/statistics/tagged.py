"""Trajectories and successes by tag of their tasks."""

from typing import Any, NamedTuple

from sqlalchemy import case, func, select

from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection, in_scope, select_trajectories
from upturn.pool.tags import TAG_METRIC, tags_until


class TagStatistics(NamedTuple):
    """Counts of the trajectories of tasks with one tag."""

    tag: str
    tasks: int
    trajectories: int
    successes: int
    missing: int


def tag_statistics(pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING) -> list[TagStatistics]:
    """Returns the counts of the selected trajectories by tag, in alphabetical order; one may be under several."""
    tags = tags_until().subquery("tags")
    selected = select_trajectories(selection, tenant, until=2**62).subquery("selected")

    def number_of(verdict: str) -> Any:
        return func.sum(case((selected.c.verdict == verdict, 1), else_=0))

    numbers = (func.count(selected.c.task_id.distinct()), func.count(), number_of("success"), number_of("missing"))
    query = (
        select(tags.c.metric, *numbers)
        .join_from(tags, selected, selected.c.task_id == tags.c.task_id)
        .where(*in_scope(tags.c.tenant, tenant))
        .group_by(tags.c.metric)
        .order_by(tags.c.metric)
    )
    with pool.engine.connect() as connection:
        return [TagStatistics(row[0].removeprefix(TAG_METRIC), *row[1:]) for row in connection.execute(query)]
