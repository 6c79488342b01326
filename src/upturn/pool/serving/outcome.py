"""The outcomes of decisions, in the order in which they arrived.

A decision has at most one outcome that teaches. It is complete at the first of these records: a verdict of the
trajectory that the decision led to; the failure of a call that another version then answered; the value that gives
every taught metric a value. A value of feedback is on the decision, on its trajectory, or on the episode that began
with the decision; the first one of each metric counts. The trajectory of a sealed episode belongs to the decision
that the episode began with. All further values, equal or contradicting, are no outcomes. A missing verdict before
the outcome is reported once, as an outcome without a reward.

Which outcome a record is depends on records with lower sequence numbers only. So the outcomes up to a number never
change, whoever reads them, and in however many parts. Feedback on a subject that is stored later is no outcome.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Select,
    and_,
    bindparam,
    func,
    literal,
    or_,
    select,
    union_all,
)
from sqlalchemy.orm import aliased

from upturn.config import MetricConfig, joint_reward
from upturn.pool import schema
from upturn.pool.selection import Scope, in_scope
from upturn.records import EPISODE_TASK, Decision, Evaluation, from_fields

_PAGE = 400
"""Maximum number of events read at once."""
_SPAN = 4_000
"""Sequence numbers looked at at once, so that the time does not grow with the square of the pool."""
_END = 2**62
"""Above all sequence numbers."""


class StoredOutcome(NamedTuple):
    """An outcome of a decision."""

    sequence: int
    """Of the record that it is in."""
    decision: Decision
    reward: float | None
    """None = the verdict is missing."""


class Value(NamedTuple):
    """What the outcome of a decision is."""

    sequence: int
    """Of the record that completed it."""
    reward: float | None
    """None = the verdict is missing."""
    evaluation: Evaluation | None
    """The evaluation that it is the verdict of; None = it is feedback, or a call that failed."""


class _Event(NamedTuple):
    """A record that may be an outcome of a decision."""

    sequence: int
    decision_id: str
    metric: str
    """Empty = a verdict, which needs no further value."""
    reward: float | None


def last_sequence(engine: Engine) -> int:
    """Returns the number of the pool's last evaluation, feedback or call; 0 = there is none."""
    with engine.connect() as connection:
        return last_record(connection)


def records_after(engine: Engine, sequence: int) -> int:
    """Returns how many evaluations, values of feedback and calls were stored after the record with this number."""
    with engine.connect() as connection:
        counts = [
            connection.execute(select(func.count()).where(table.c.sequence > sequence)).scalar_one()
            for table in (schema.evaluations, schema.feedback, schema.calls)
        ]
    return sum(counts)


def evaluated_until(engine: Engine, evaluation_ids: Sequence[str]) -> int:
    """Returns the highest number of these evaluations; 0 = none is stored."""
    column = schema.evaluations.c.sequence
    with engine.connect() as connection:
        query = select(func.max(column)).where(schema.evaluations.c.id.in_(evaluation_ids))
        return connection.execute(query).scalar() or 0


def outcomes_after(
    engine: Engine, start: int, end: int, *, metrics: Sequence[MetricConfig], tenant: Scope
) -> Iterator[StoredOutcome]:
    """Yields the outcomes in records with numbers above ``start`` and at most ``end``, in their order.

    ``metrics``: those that teach, with their weights."""
    while start < end:
        stop = min(end, start + _SPAN)
        with engine.connect() as connection:
            events = _events(connection, (start, stop), metrics, tenant)
            stop = stop if len(events) < _PAGE else events[-1].sequence
            outcomes = list(_outcomes(connection, events, metrics))
        yield from outcomes
        start = stop


def values_of(engine: Engine, decision_ids: Sequence[str], *, metrics: Sequence[MetricConfig]) -> dict[str, Value]:
    """Returns the outcome of each of these decisions, or its missing verdict; others have none yet.

    ``metrics``: those that count, with their weights."""
    values: dict[str, Value] = {}
    with engine.connect() as connection:
        for start in range(0, len(decision_ids), _PAGE):
            page = set(decision_ids[start : start + _PAGE])
            events: defaultdict[str, list[_Event]] = defaultdict(list)
            for event in _earlier(connection, sorted(page), _END, metrics):
                events[event.decision_id].append(event)
            last = {name: list(_outcomes_of(members, metrics)) for name, members in events.items() if name in page}
            outcomes = {name: pairs[-1] for name, pairs in last.items() if pairs}
            table = schema.evaluations
            query = select(table.c.sequence, table.c.fields).where(
                table.c.sequence.in_([sequence for sequence, _ in outcomes.values()])
            )
            evaluations = {row.sequence: from_fields(Evaluation, row.fields) for row in connection.execute(query)}
            for name, (sequence, reward) in outcomes.items():
                values[name] = Value(sequence, reward, evaluations.get(sequence))
    return values


def last_record(connection: Connection) -> int:
    """Returns the same in a transaction."""
    tables = (schema.evaluations, schema.feedback, schema.calls)
    return max(connection.execute(select(func.max(table.c.sequence))).scalar() or 0 for table in tables)


def _events(
    connection: Connection, span: tuple[int, int], metrics: Sequence[MetricConfig], tenant: Scope
) -> list[_Event]:
    """Returns the first events in the span, in their order, each with its decision."""
    values = {"start": span[0], "end": span[1], "page": _PAGE}
    rows = connection.execute(_events_query(_names(metrics), tenant), values).all()
    return [_event(row, metrics) for row in rows]


def _names(metrics: Sequence[MetricConfig]) -> tuple[str, ...]:
    return tuple(metric.name for metric in metrics)


@lru_cache
def _events_query(metrics: tuple[str, ...], tenant: Scope) -> Executable:
    """Built once: that takes longer than a query for a single event."""

    def within(column: ColumnElement[int]) -> ColumnElement[bool]:
        return and_(column > bindparam("start"), column <= bindparam("end"))

    evaluations, feedback, calls = schema.evaluations, schema.feedback, schema.calls
    queries = [
        query.where(within(column), *in_scope(owner, tenant))
        for query, column, owner in (
            (_evaluated(), evaluations.c.sequence, evaluations.c.tenant),
            (_rated(metrics), feedback.c.sequence, feedback.c.tenant),
            (_fallen_back(), calls.c.sequence, calls.c.tenant),
        )
    ]
    return union_all(*queries).order_by("sequence").limit(bindparam("page"))


def _outcomes(
    connection: Connection, events: Sequence[_Event], metrics: Sequence[MetricConfig]
) -> Iterator[StoredOutcome]:
    """Yields the outcomes that are in these events, in their order."""
    if not events:
        return
    ids = sorted({event.decision_id for event in events if event.decision_id})
    table, before = schema.decisions, events[0].sequence
    query = select(table.c.id, table.c.fields).where(table.c.id.in_(ids))
    decisions = {row.id: from_fields(Decision, row.fields) for row in connection.execute(query)}
    known: defaultdict[str, list[_Event]] = defaultdict(list)
    for event in (*_earlier(connection, list(decisions), before, metrics), *events):
        known[event.decision_id].append(event)
    outcomes = [
        StoredOutcome(sequence, decision, reward)
        for decision in decisions.values()
        for sequence, reward in _outcomes_of(known[decision.id], metrics)
        if sequence >= before
    ]
    yield from sorted(outcomes, key=lambda outcome: outcome.sequence)


def _outcomes_of(events: Sequence[_Event], metrics: Sequence[MetricConfig]) -> Iterator[tuple[int, float | None]]:
    """Yields the outcomes of one decision with their numbers: up to one missing verdict, then up to one reward."""
    names, is_missing = _names(metrics), False
    values: dict[str, float] = {}
    for event in sorted(events, key=lambda event: event.sequence):
        if event.reward is None:
            if not is_missing:
                yield event.sequence, None
            is_missing = True
        elif not event.metric:
            yield event.sequence, event.reward
            return
        else:
            values.setdefault(event.metric, event.reward)
            if len(values) == len(names):
                yield event.sequence, joint_reward(metrics, [values[name] for name in names])
                return


def _earlier(
    connection: Connection, ids: Sequence[str], before: int, metrics: Sequence[MetricConfig]
) -> list[_Event]:
    """Returns the events of these decisions before a number."""
    rows = connection.execute(_earlier_query(_names(metrics)), {"ids": ids, "before": before})
    return [_event(row, metrics) for row in rows]


@lru_cache
def _earlier_query(metrics: tuple[str, ...]) -> Executable:
    evaluations, feedback, calls = schema.evaluations, schema.feedback, schema.calls
    ids: BindParameter[Any] = bindparam("ids", expanding=True)
    before: BindParameter[Any] = bindparam("before")
    chosen = select(schema.decisions).where(schema.decisions.c.id.in_(ids)).subquery()
    sealed = select(literal(f"{EPISODE_TASK}:") + chosen.c.tenant + literal(":") + chosen.c.episode)
    done = union_all(select(chosen.c.task_id), sealed.where(chosen.c.episode.is_not(None)))
    executed = select(schema.trajectories.c.id).where(schema.trajectories.c.task_id.in_(done))
    kind, subject = feedback.c.subject_kind, feedback.c.subject_id
    subjects = or_(
        and_(kind == "decision", subject.in_(ids)),
        and_(kind == "episode", subject.in_(select(chosen.c.episode).where(chosen.c.episode.is_not(None)))),
        and_(kind == "trajectory", subject.in_(executed)),
    )
    return union_all(
        _evaluated().where(evaluations.c.sequence < before, evaluations.c.trajectory_id.in_(executed)),
        _rated(metrics).where(feedback.c.sequence < before, subjects),
        _fallen_back().where(calls.c.sequence < before, calls.c.id.in_(ids)),
    )


def _event(row: Any, metrics: Sequence[MetricConfig]) -> _Event:
    """The verdict of an evaluation is its reward; of feedback, that of its value."""
    decision = row.decision_id or ""
    if row.verdict:
        reward = None if row.verdict == "missing" else float(row.verdict == "success")
        return _Event(row.sequence, decision, "", reward)
    value = next(metric.reward(row.value) for metric in metrics if metric.name == row.metric)
    return _Event(row.sequence, decision if value is not None else "", row.metric, value)


def _decision_of(trajectory: Any) -> Any:
    """Returns the id of the decision that a trajectory carries out, as a scalar query; NULL = of none.

    It is the latest decision for the task and version before the trajectory, and this is its first trajectory:
    further ones, for example of an evaluation on the same task, were not routed.
    """
    decision, other = aliased(schema.decisions), aliased(schema.trajectories)
    # One decision, one trajectory: none of the same task and version lies between them.
    between = (
        select(literal(1))
        .where(
            other.c.task_id == trajectory.c.task_id,
            other.c.agent_version == trajectory.c.agent_version,
            other.c.sequence > decision.c.sequence,
            other.c.sequence < trajectory.c.sequence,
        )
        .correlate(decision, trajectory)
        .exists()
    )
    of_task = (
        select(decision.c.id)
        .where(
            decision.c.task_id == trajectory.c.task_id,
            decision.c.chosen == trajectory.c.agent_version,
            decision.c.sequence < trajectory.c.sequence,
            ~between,
        )
        .order_by(decision.c.sequence.desc())
        .limit(1)
        .correlate(trajectory)
    )
    return func.coalesce(of_task.scalar_subquery(), _opening_of(trajectory).scalar_subquery())


def _opening_of(trajectory: Any) -> Any:
    """Returns a query of the decision that a sealed episode began with; its trajectory's task is the episode."""
    call = aliased(schema.calls)  # a call has the id of its decision, and an index by episode
    start = f"{EPISODE_TASK}:"
    return (
        select(call.c.id)
        .where(
            func.substr(trajectory.c.task_id, 1, len(start)) == start,
            call.c.tenant == trajectory.c.tenant,
            call.c.episode == func.substr(trajectory.c.task_id, func.length(trajectory.c.tenant) + len(start) + 2),
            call.c.sequence < trajectory.c.sequence,
        )
        .order_by(call.c.sequence)
        .limit(1)
        .correlate(trajectory)
    )


def _columns(sequence: Any, decision: Any, *, verdict: Any, metric: Any, value: Any) -> Select[Any]:
    return select(
        sequence.label("sequence"),
        decision.label("decision_id"),
        verdict.label("verdict"),
        metric.label("metric"),
        value.label("value"),
    )


def _evaluated() -> Select[Any]:
    """Evaluations of trajectories with a decision."""
    evaluations, trajectory = schema.evaluations, aliased(schema.trajectories)
    return _columns(
        evaluations.c.sequence,
        _decision_of(trajectory),
        verdict=evaluations.c.verdict,
        metric=literal(""),
        value=literal(0.0),
    ).join_from(evaluations, trajectory, trajectory.c.id == evaluations.c.trajectory_id)


def _rated(metrics: tuple[str, ...]) -> Select[Any]:
    """Feedback of the metrics, with the decision of its subject."""
    feedback, decision, trajectory = schema.feedback, aliased(schema.decisions), aliased(schema.trajectories)
    kind, subject = feedback.c.subject_kind, feedback.c.subject_id
    direct = select(decision.c.id).where(
        kind == "decision",
        decision.c.id == subject,
        decision.c.tenant == feedback.c.tenant,
        decision.c.sequence < feedback.c.sequence,
    )
    of_trajectory = select(_decision_of(trajectory)).where(
        kind == "trajectory",
        trajectory.c.id == subject,
        trajectory.c.tenant == feedback.c.tenant,
        trajectory.c.sequence < feedback.c.sequence,
    )
    call = aliased(schema.calls)  # it has the id of its decision, and an index by episode, unlike decisions
    of_call = (
        select(call.c.id)
        .where(
            kind == "episode",
            call.c.tenant == feedback.c.tenant,
            call.c.episode == subject,
            call.c.sequence < feedback.c.sequence,
        )
        .order_by(call.c.sequence)
        .limit(1)
    )
    opening = aliased(schema.decisions)
    of_episode = (
        select(opening.c.id)
        .where(
            kind == "episode",
            opening.c.episode == subject,
            opening.c.tenant == feedback.c.tenant,
            opening.c.sequence < feedback.c.sequence,
        )
        .order_by(opening.c.sequence)
        .limit(1)
    )
    target = func.coalesce(
        direct.scalar_subquery(),
        of_trajectory.scalar_subquery(),
        of_call.scalar_subquery(),
        of_episode.scalar_subquery(),
    )
    return _columns(
        feedback.c.sequence, target, verdict=literal(""), metric=feedback.c.metric, value=feedback.c.value
    ).where(feedback.c.metric.in_(metrics))


def _fallen_back() -> Select[Any]:
    """Calls that another version answered than the chosen one, which had failed."""
    calls, decision = schema.calls, aliased(schema.decisions)
    return _columns(
        calls.c.sequence, decision.c.id, verdict=literal("failure"), metric=literal(""), value=literal(0.0)
    ).join_from(calls, decision, and_(decision.c.id == calls.c.id, decision.c.chosen != calls.c.agent_version))
