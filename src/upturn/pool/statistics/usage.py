"""Tokens, time and recorded cost of a trajectory, by agent version."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

from pydantic_core import from_json
from sqlalchemy import Connection, select

from upturn.pool import schema
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection, in_scope, select_trajectories

_SOURCES = ("outcomes/1",)
"""Evaluators whose evaluations may have a recorded cost."""


class AgentUsage(NamedTuple):
    """What a trajectory of one agent version takes; None = it is not recorded for any."""

    agent_version: str
    trajectories: int
    written_tokens: float | None
    """Mean of those with tokens."""
    median_seconds: float | None
    p95_seconds: float | None
    """95 of 100 trajectories with a recorded time take at most this."""
    timed: int
    """Number of trajectories with a recorded time."""
    cost: float | None
    """Mean recorded cost, in the unit of the source."""
    priced: int
    """Number of trajectories with a recorded cost."""


def usage_by_agent(pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING) -> tuple[AgentUsage, ...]:
    """Returns the usage of the selected trajectories, by the ids of agent versions."""
    table = schema.trajectories
    selected = select_trajectories(selection, tenant, until=2**62).subquery("selected")
    columns = (table.c.id, table.c.agent_version, table.c.written_tokens, table.c.seconds)
    query = select(*columns).join(selected, selected.c.trajectory_id == table.c.id)
    tokens, seconds, costs = (defaultdict[str, list[float]](list) for _ in range(3))
    counts = defaultdict[str, int](int)
    with pool.engine.connect() as connection:
        known = recorded_costs(connection, tenant)
        for row in connection.execute(query):
            counts[row.agent_version] += 1
            if row.written_tokens:
                tokens[row.agent_version].append(row.written_tokens)
            if row.seconds:
                seconds[row.agent_version].append(row.seconds)
            if row.id in known:
                costs[row.agent_version].append(known[row.id])
    return tuple(
        AgentUsage(
            name,
            counts[name],
            fmean(tokens[name]) if tokens[name] else None,
            median(seconds[name]) if seconds[name] else None,
            _p95(seconds[name]) if seconds[name] else None,
            len(seconds[name]),
            fmean(costs[name]) if costs[name] else None,
            len(costs[name]),
        )
        for name in sorted(counts)
    )


def recorded_costs(connection: Connection, tenant: Scope) -> dict[str, float]:
    """Returns the costs that imported tables of outcomes had, by the id of the trajectory."""
    table = schema.evaluations
    query = select(table.c.trajectory_id, table.c.fields).where(
        table.c.evaluator.in_(_SOURCES), *in_scope(table.c.tenant, tenant)
    )
    costs = {row.trajectory_id: from_json(row.fields)["costs"] for row in connection.execute(query)}
    return {name: float(values["recorded"]) for name, values in costs.items() if "recorded" in values}


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[-(-95 * len(values) // 100) - 1]
