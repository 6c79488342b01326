"""Times of records that cannot be: in the future, or before a record that was stored earlier."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select

from upturn.pool import schema
from upturn.pool.reader import PoolReader
from upturn.pool.selection import Scope, in_scope
from upturn.records import Trajectory

SLACK = 60.0
"""Seconds by which the clocks of two machines may differ."""
_PAGE = 10_000


class ClockProblem(NamedTuple):
    """A trajectory with a time that cannot be."""

    trajectory_id: str
    problem: str


def clock_problems(pool: PoolReader, *, tenant: Scope, now: float) -> Iterator[ClockProblem]:
    """Yields the tenant's trajectories that were recorded after ``now``, or before an earlier one of the pool."""
    table = schema.trajectories
    query = select(table.c.id, table.c.recorded_at).where(*in_scope(table.c.tenant, tenant))
    latest = 0.0
    with pool.engine.connect() as connection:
        for row in connection.execution_options(yield_per=_PAGE).execute(query.order_by(table.c.sequence)):
            if row.recorded_at > now + SLACK:
                yield ClockProblem(row.id, f"recorded {row.recorded_at - now:,.0f} s in the future")
                continue
            if row.recorded_at < latest - SLACK:
                yield ClockProblem(row.id, f"recorded {latest - row.recorded_at:,.0f} s before an earlier one")
            latest = max(latest, row.recorded_at)


def source_time_problem(trajectory: Trajectory, now: float) -> str:
    """Returns why the time that a source recorded cannot be; empty = it can, or there is none."""
    extra: Any = trajectory.final_state.get("extra")
    text = extra.get("time") if isinstance(extra, Mapping) else None
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return ""
    if moment is None or moment.tzinfo is None:
        return ""
    ahead = moment.timestamp() - now
    if ahead > SLACK:
        return f"its source recorded it {ahead:,.0f} s in the future"
    return "" if moment.timestamp() > 0 else "its source recorded it before 1970"
