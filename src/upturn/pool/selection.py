"""Selections of trajectories by tenant and criteria."""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, FromClause, Select, func, select

from upturn.pool.schema import evaluations, rollouts, tasks, trajectories
from upturn.pool.tags import tagged
from upturn.records import EvaluationVerdict, Origin, Split, fields_json, record


class _AllTenants(Enum):
    ALL_TENANTS = "all tenants"


ALL_TENANTS: Final = _AllTenants.ALL_TENANTS
"""The operator's scope, for statistics over the whole pool; never for anything that a tenant sees."""

Scope: TypeAlias = str | Literal[_AllTenants.ALL_TENANTS]
"""One tenant's name, or ALL_TENANTS."""


@record
class Selection:
    """Criteria for trajectories, which must all hold. An empty tuple or None = any."""

    families: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    splits: tuple[Split, ...] = ()
    agent_versions: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    verdicts: tuple[EvaluationVerdict, ...] = ()
    """``missing`` includes trajectories without a stored evaluation."""
    min_score: float | None = None
    run: str | None = None
    """Only rollouts of this training run."""
    iteration: int | None = None
    """Only rollouts of this iteration of ``run``; needs ``run``."""
    since: float | None = None
    """Recorded at or after this time (UTC, seconds since 1970)."""
    before: float | None = None
    """Recorded before this time."""
    tags: tuple[str, ...] = ()
    """Only of tasks that have all of these tags."""
    limit_per_family: int | None = None
    """At most the latest ``limit_per_family`` of each family, so that no family dominates."""
    limit: int | None = None
    """At most the latest ``limit``."""

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("limit_per_family", self.limit_per_family)):
            if value is not None and value < 0:
                raise ValueError(f"{name} must be zero or more, or None (no limit), got {value!r}")
        if self.iteration is not None and self.run is None:
            raise ValueError(f"iteration {self.iteration!r} needs its run; set run too")

    @property
    def criteria(self) -> str:
        """The criteria as canonical JSON."""
        return fields_json(self)


EVERYTHING: Final = Selection()


def in_scope(column: ColumnElement[str], tenant: Scope) -> list[ColumnElement[bool]]:
    """Returns the condition that limits a read to its tenant; no condition for ALL_TENANTS."""
    return [] if tenant is ALL_TENANTS else [column == tenant]


def latest_evaluation(until: int) -> FromClause:
    """Returns a subquery with each trajectory's latest evaluation up to sequence number ``until``.

    Columns: id, trajectory_id, verdict, score, fields.
    """
    later = evaluations.alias("later")
    latest = select(func.max(later.c.sequence)).where(
        later.c.trajectory_id == evaluations.c.trajectory_id, later.c.sequence <= until
    )
    columns = (evaluations.c.id, evaluations.c.trajectory_id, evaluations.c.verdict, evaluations.c.score)
    return (
        select(*columns, evaluations.c.fields)
        .where(evaluations.c.sequence == latest.scalar_subquery())
        .subquery("latest")
    )


def _among(column: ColumnElement[str], allowed: Sequence[str]) -> list[ColumnElement[bool]]:
    return [column.in_(allowed)] if allowed else []


def select_trajectories(selection: Selection, tenant: Scope, until: int) -> Select[Any]:
    """Returns a query for trajectory_id, task_id, family, sequence, evaluation_id, verdict and score.

    ``verdict`` is ``missing`` if no evaluation is stored. ``until`` is the last sequence number to read, so that
    several reads of a growing pool return the same records.
    """
    latest = latest_evaluation(until)
    verdict = func.coalesce(latest.c.verdict, "missing")
    columns = (
        trajectories.c.id.label("trajectory_id"),
        trajectories.c.task_id,
        tasks.c.family,
        trajectories.c.sequence,
        latest.c.id.label("evaluation_id"),
        verdict.label("verdict"),
        latest.c.score,
    )
    query = select(*columns).join(tasks, tasks.c.id == trajectories.c.task_id)
    query = query.outerjoin(latest, latest.c.trajectory_id == trajectories.c.id)
    query = query.where(
        trajectories.c.sequence <= until,
        *in_scope(trajectories.c.tenant, tenant),
        *_among(tasks.c.family, selection.families),
        *_among(tasks.c.environment, selection.environments),
        *_among(tasks.c.split, selection.splits),
        *_among(trajectories.c.agent_version, selection.agent_versions),
        *_among(trajectories.c.origin, selection.origins),
        *_among(verdict, selection.verdicts),
        *_scalar_conditions(selection, latest.c.score),
        *tagged(trajectories.c.task_id, selection.tags, until),
    )
    if selection.limit_per_family is not None:
        rank = func.row_number().over(partition_by=tasks.c.family, order_by=trajectories.c.sequence.desc())
        ranked = query.add_columns(rank.label("rank")).subquery("ranked")
        columns_without_rank = [column for column in ranked.c if column.name != "rank"]
        query = select(*columns_without_rank).where(ranked.c.rank <= selection.limit_per_family)
    if selection.limit is not None:
        sequence = query.selected_columns.sequence
        query = query.order_by(sequence.desc()).limit(selection.limit)
    return query


def _scalar_conditions(selection: Selection, score: ColumnElement[float]) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if selection.min_score is not None:
        conditions.append(score >= selection.min_score)
    if selection.since is not None:
        conditions.append(trajectories.c.recorded_at >= selection.since)
    if selection.before is not None:
        conditions.append(trajectories.c.recorded_at < selection.before)
    if selection.run is not None:
        appended = select(rollouts.c.trajectory_id).where(rollouts.c.run == selection.run)
        if selection.iteration is not None:
            appended = appended.where(rollouts.c.iteration == selection.iteration)
        conditions.append(trajectories.c.id.in_(appended))
    return conditions
