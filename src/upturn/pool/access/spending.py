"""What callers have spent, from the costs of stored calls."""

from typing import NamedTuple

from sqlalchemy import Engine, FromClause, case, func, select

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
