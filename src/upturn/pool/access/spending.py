"""What callers have spent, from the costs of stored calls and the tokens of submitted tasks."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Engine, FromClause, and_, case, func, select

from upturn.pool.row import cache_tokens
from upturn.pool.schema import submissions, trajectories
from upturn.pool.selection import Scope, in_scope


class Spending(NamedTuple):
    """The costs of one key's calls, in USD."""

    tenant: str
    key: str
    """Id of the key; empty = calls without one."""
    day_usd: float
    month_usd: float


def spending(
    engine: Engine, calls: FromClause, *, day_start: float, month_start: float, tenant: Scope
) -> list[Spending]:
    """Returns the costs since both times (UTC, seconds since 1970; the month starts first), by tenant and key.

    ``calls`` is a table with the columns tenant, key, cost_usd (NULL = no price) and recorded_at.
    """
    cost, recorded_at = calls.c.cost_usd, calls.c.recorded_at
    of_day = func.sum(case((recorded_at >= day_start, cost), else_=0.0))
    query = (
        select(calls.c.tenant, calls.c.key, of_day, func.sum(cost))
        .where(recorded_at >= month_start, cost.is_not(None), *in_scope(calls.c.tenant, tenant))
        .group_by(calls.c.tenant, calls.c.key)
        .order_by(calls.c.tenant, calls.c.key)
    )
    with engine.connect() as connection:
        return [Spending(row[0], row[1], float(row[2]), float(row[3])) for row in connection.execute(query)]


class TaskUsage(NamedTuple):
    """The tokens of one submitted task."""

    tenant: str
    key: str
    """Id of the key that submitted it; empty = none."""
    agent_version: str
    read: int
    """Cached ones included."""
    written: int
    recorded_at: float
    cached: int = 0
    """Of ``read``."""
    cache_write: int = 0
    """Of ``read``: written to the cache."""
    cache_write_1h: int = 0
    """Of ``cache_write``."""


def task_usage(
    engine: Engine, *, since: float, tenant: Scope, task_ids: Sequence[str] | None = None
) -> list[TaskUsage]:
    """Returns the tokens of submitted tasks that have run since a time (UTC, seconds since 1970).

    ``task_ids``: None = of all tasks.
    """
    table = trajectories
    query = (
        select(
            submissions.c.tenant,
            submissions.c.key,
            table.c.agent_version,
            table.c.prompt_tokens,
            table.c.written_tokens,
            table.c.fields,
            table.c.recorded_at,
        )
        .join(table, and_(table.c.task_id == submissions.c.task_id, table.c.tenant == submissions.c.tenant))
        .where(table.c.recorded_at >= since, *in_scope(submissions.c.tenant, tenant))
        .order_by(table.c.sequence)
    )
    if task_ids is not None:
        query = query.where(submissions.c.task_id.in_(task_ids))
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    return [
        TaskUsage(
            row.tenant,
            row.key,
            row.agent_version,
            row.prompt_tokens,
            row.written_tokens,
            row.recorded_at,
            *cache_tokens(row.fields, row.prompt_tokens),
        )
        for row in rows
    ]
