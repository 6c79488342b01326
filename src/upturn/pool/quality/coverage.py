"""Coverage: how much of the routed work is logged, executed and evaluated.

Routed tasks are all tasks except imported ones and those that only training rollouts used. A decision is executed
if a trajectory of its task by its chosen version is stored, and evaluated if one of these trajectories has a
verdict other than ``missing``.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, func, not_, or_, select

from upturn.pool.reader import PoolReader
from upturn.pool.schema import agent_versions, decisions, evaluations, rollouts, tasks, trajectories
from upturn.pool.selection import Scope, in_scope

COVERAGE_BARS = {"routing": 1.0, "execution": 0.95, "evaluation": 0.90, "agents": 1.0}
"""The share of each step that a service should reach, by the fields of ``Coverage``."""
IMPORTED = "imported"
"""Environment of imported tasks."""


class Share(NamedTuple):
    """``part`` of ``whole``."""

    part: int
    whole: int

    @property
    def value(self) -> float:
        """``part / whole``; 1.0 if ``whole`` is 0."""
        return self.part / self.whole if self.whole else 1.0


class Coverage(NamedTuple):
    """The coverage of each step."""

    routing: Share
    """Routed tasks with a logged decision."""
    execution: Share
    """Decisions that are executed."""
    evaluation: Share
    """Executed decisions that are evaluated."""
    agents: Share
    """Agent versions in service with at least one trajectory."""


def coverage(pool: PoolReader, *, tenant: Scope, in_service: Sequence[str] | None = None) -> Coverage:
    """Returns the coverage for a tenant; ``in_service`` are ids of agent versions, None = all stored versions."""
    with pool.engine.connect() as connection:
        decided = exists().where(decisions.c.task_id == tasks.c.id)
        tasks_routed = _count(connection, tenant, tasks.c.tenant, _is_routed())
        decided_tasks = _count(connection, tenant, tasks.c.tenant, and_(_is_routed(), decided))
        done = and_(
            trajectories.c.task_id == decisions.c.task_id, trajectories.c.agent_version == decisions.c.chosen
        )
        evaluated = and_(done, evaluations.c.trajectory_id == trajectories.c.id, evaluations.c.verdict != "missing")
        all_decisions = _count(connection, tenant, decisions.c.tenant)
        executions = _count(connection, tenant, decisions.c.tenant, exists().where(done))
        evaluations_of_them = _count(connection, tenant, decisions.c.tenant, exists().where(evaluated))
        agents = _agents(connection, tenant, in_service)
    return Coverage(
        routing=Share(decided_tasks, tasks_routed),
        execution=Share(executions, all_decisions),
        evaluation=Share(evaluations_of_them, executions),
        agents=agents,
    )


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
    """Returns the number of rows of the column's table in the tenant's scope that meet the conditions."""
    query = select(func.count(tenant_column)).where(*in_scope(tenant_column, tenant), *conditions)
    return connection.execute(query).scalar_one()


def _agents(connection: Connection, tenant: Scope, in_service: Sequence[str] | None) -> Share:
    if in_service is None:
        in_service = list(connection.execute(select(agent_versions.c.id)).scalars())
    query = select(trajectories.c.agent_version).distinct().where(*in_scope(trajectories.c.tenant, tenant))
    acted = set(connection.execute(query).scalars())
    return Share(len(acted & set(in_service)), len(set(in_service)))
