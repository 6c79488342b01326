"""How much of the feedback on the latest decisions has arrived, metric by metric."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, and_, select

from upturn.config import MetricConfig
from upturn.pool import schema
from upturn.pool.selection import Scope, in_scope

LATEST = 1_000
"""Decisions that are looked at, so that the time does not grow with the pool."""
_IDS_PER_QUERY = 500
_SECONDS_AN_HOUR = 3_600.0


class MetricCount(NamedTuple):
    """The latest decisions by what is known of one metric. A value on an episode counts for all its decisions."""

    metric: MetricConfig
    arrived: int
    waiting: int
    """Without a value, younger than the metric's delay."""
    missing: int
    """Without a value, older than the metric's delay."""


class _Subjects(NamedTuple):
    """What feedback on a decision may name, besides the decision."""

    id: str
    task_id: str
    episode: str | None
    recorded_at: float


def metric_counts(
    engine: Engine, metrics: Sequence[MetricConfig], *, tenant: Scope, now: float
) -> list[MetricCount]:
    """Returns the counts of each metric over the ``LATEST`` decisions; ``now``: UTC seconds."""
    table = schema.decisions
    query = select(table.c.id, table.c.task_id, table.c.episode, table.c.recorded_at)
    query = query.where(*in_scope(table.c.tenant, tenant)).order_by(table.c.sequence.desc()).limit(LATEST)
    with engine.connect() as connection:
        decisions = [_Subjects(*row) for row in connection.execute(query)]
        rated = _rated(connection, decisions, tenant)
    return [_count(metric, decisions, rated, now) for metric in metrics]


def _rated(connection: Connection, decisions: Sequence[_Subjects], tenant: Scope) -> set[tuple[str, str, str]]:
    """Returns (metric, kind, subject) of the feedback on the decisions. The task stands for its trajectory."""
    feedback, trajectories = schema.feedback, schema.trajectories
    owner = in_scope(feedback.c.tenant, tenant)
    rated: set[tuple[str, str, str]] = set()
    for kind, subjects in (
        ("decision", {decision.id for decision in decisions}),
        ("episode", {decision.episode for decision in decisions if decision.episode is not None}),
    ):
        for is_member in _members(feedback.c.subject_id, subjects):
            query = select(feedback.c.metric, feedback.c.subject_kind, feedback.c.subject_id)
            rated |= {
                (row[0], row[1], row[2])
                for row in connection.execute(query.where(feedback.c.subject_kind == kind, is_member, *owner))
            }
    of_trajectory = and_(
        feedback.c.subject_kind == "trajectory", feedback.c.subject_id == trajectories.c.id, *owner
    )
    for is_member in _members(trajectories.c.task_id, {decision.task_id for decision in decisions}):
        query = select(feedback.c.metric, feedback.c.subject_kind, trajectories.c.task_id)
        query = query.join_from(trajectories, feedback, of_trajectory).where(is_member)
        rated |= {(row[0], row[1], row[2]) for row in connection.execute(query)}
    return rated


def _members(column: ColumnElement[str], values: Collection[str]) -> Iterator[ColumnElement[bool]]:
    """Yields the condition that the column has one of the values, in parts that fit a query."""
    ordered = sorted(values)
    for start in range(0, len(ordered), _IDS_PER_QUERY):
        yield column.in_(ordered[start : start + _IDS_PER_QUERY])


def _count(
    metric: MetricConfig, decisions: Sequence[_Subjects], rated: Collection[tuple[str, str, str]], now: float
) -> MetricCount:
    arrived = waiting = 0
    for decision in decisions:
        if any(
            (metric.name, kind, subject) in rated
            for kind, subject in (
                ("decision", decision.id),
                ("episode", decision.episode),
                ("trajectory", decision.task_id),
            )
        ):
            arrived += 1
        elif now - decision.recorded_at <= metric.delay_hours * _SECONDS_AN_HOUR:
            waiting += 1
    return MetricCount(metric, arrived, waiting, len(decisions) - arrived - waiting)
