"""Coverage of the evidence: four shares, each with its whole, computed by the database.

Routed tasks are those that came to the arbiter: all but imported ones and those that only training rollouts used. A
decision is executed when a trajectory of its task by its chosen version is stored; an execution is evaluated when
one of those trajectories has a verdict other than ``missing``.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, func, not_, or_, select

from upturn.pool.reader import PoolReader
from upturn.pool.schema import agent_versions, decisions, evaluations, rollouts, tasks, trajectories
from upturn.pool.selection import Scope, in_scope

IMPORTED = "imported"
"""The environment of imported tasks."""


class Share(NamedTuple):
    """``part`` of ``whole``."""

    part: int
    whole: int

    @property
    def value(self) -> float:
        """Between 0 and 1; 1.0 where ``whole`` is 0."""
        return self.part / self.whole if self.whole else 1.0


class Coverage(NamedTuple):
    """The logged share of each step."""

    routing: Share
    """Tasks that came to the arbiter, with a logged decision."""
    execution: Share
    """Decisions whose execution is stored."""
    evaluation: Share
    """Executed decisions whose execution was judged."""
    agents: Share
    """Agent versions in service with at least one trajectory."""


def coverage(pool: PoolReader, *, tenant: Scope, in_service: Sequence[str] | None = None) -> Coverage:
    """The shares for a tenant; ``in_service`` are agent version ids, None = all that are registered."""
    with pool.engine.connect() as connection:
        decided = exists().where(decisions.c.task_id == tasks.c.id)
        tasks_routed = _count(connection, tenant, tasks.c.tenant, _is_routed())
        decided_tasks = _count(connection, tenant, tasks.c.tenant, and_(_is_routed(), decided))
        done = and_(
            trajectories.c.task_id == decisions.c.task_id, trajectories.c.agent_version == decisions.c.chosen
        )
        judged = and_(done, evaluations.c.trajectory_id == trajectories.c.id, evaluations.c.verdict != "missing")
        total = _count(connection, tenant, decisions.c.tenant)
        executed = _count(connection, tenant, decisions.c.tenant, exists().where(done))
        evaluated = _count(connection, tenant, decisions.c.tenant, exists().where(judged))
        agents = _agents(connection, tenant, in_service)
    return Coverage(Share(decided_tasks, tasks_routed), Share(executed, total), Share(evaluated, executed), agents)


def _is_routed() -> ColumnElement[bool]:
    of_task = trajectories.c.task_id == tasks.c.id
    is_rollout = exists().where(rollouts.c.trajectory_id == trajectories.c.id)
    return and_(
        tasks.c.environment != IMPORTED,
        or_(
            exists().where(decisions.c.task_id == tasks.c.id),
            not_(exists().where(of_task)),
            exists().where(and_(of_task, not_(is_rollout))),
        ),
    )


def _count(
    connection: Connection, tenant: Scope, tenant_column: ColumnElement[str], *conditions: ColumnElement[bool]
) -> int:
    """Number of rows of ``tenant_column``'s table in scope that meet the conditions."""
    query = select(func.count(tenant_column)).where(*in_scope(tenant_column, tenant), *conditions)
    return connection.execute(query).scalar_one()


def _agents(connection: Connection, tenant: Scope, in_service: Sequence[str] | None) -> Share:
    if in_service is None:
        in_service = list(connection.execute(select(agent_versions.c.id)).scalars())
    query = select(trajectories.c.agent_version).distinct().where(*in_scope(trajectories.c.tenant, tenant))
    acted = set(connection.execute(query).scalars())
    return Share(len(acted & set(in_service)), len(set(in_service)))
