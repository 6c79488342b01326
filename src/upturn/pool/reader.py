"""Reading the pool. Every read names its tenant; ALL_TENANTS is the operator's.

Long reads are paged, so that a slow consumer holds no transaction open; evidence that arrives after the first page
is not returned.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Engine, Select, Table, func, select

from upturn.errors import RecordError, StoreError
from upturn.pool import schema
from upturn.pool.row import KINDS, trajectory_of
from upturn.pool.selection import EVERYTHING, Scope, Selection, in_scope, latest_evaluation, select_trajectories
from upturn.records import (
    AgentVersion,
    Decision,
    Evaluation,
    EvaluationVerdict,
    Feedback,
    Release,
    Run,
    Snapshot,
    Task,
    Trajectory,
    from_fields,
)

RecordT = TypeVar("RecordT")
StateT = TypeVar("StateT", Release, Run)

_PAGE = 500
"""Rows read at once: a few MB with tokens."""


class Experience(NamedTuple):
    """One data point: a trajectory with its task and evaluation."""

    task: Task
    trajectory: Trajectory
    evaluation: Evaluation | None
    """The latest one; None = none is stored."""


class Selected(NamedTuple):
    """A selected trajectory, without its content."""

    trajectory_id: str
    task_id: str
    family: str
    evaluation_id: str | None
    """None = no evaluation is stored."""
    verdict: EvaluationVerdict
    score: float | None


class PoolReader:
    """The reading half of a pool; safe to share between threads."""

    def __init__(self, path: Path, engine: Engine) -> None:
        """For ``Pool.open``."""
        self.path = path
        self._engine = engine

    @property
    def engine(self) -> Engine:
        """The read-only engine, for statistics computed by the database. Scope them with ``in_scope``."""
        return self._engine

    def tasks(
        self, *, tenant: Scope, ids: Sequence[str] | None = None, families: Sequence[str] = ()
    ) -> Iterator[Task]:
        """Tasks in the order of arrival; with ``ids``, only those of them that the tenant has."""
        extra = [schema.tasks.c.family.in_(families)] if families else []
        return self._records(Task, tenant, extra, _among_ids(schema.tasks.c.id, ids))

    def decisions(
        self, *, tenant: Scope, task_ids: Sequence[str] | None = None, episode: str | None = None
    ) -> Iterator[Decision]:
        """Decisions in the order of arrival; with ``task_ids`` or ``episode``, only those for them."""
        extra = [] if episode is None else [schema.decisions.c.episode == episode]
        return self._records(Decision, tenant, extra, _among_ids(schema.decisions.c.task_id, task_ids))

    def feedback(self, *, tenant: Scope, subject_id: str | None = None) -> Iterator[Feedback]:
        """Feedback in the order of arrival; with ``subject_id``, only feedback on it."""
        extra = [] if subject_id is None else [schema.feedback.c.subject_id == subject_id]
        return self._records(Feedback, tenant, extra, [None])

    def trajectories(
        self, selection: Selection = EVERYTHING, *, tenant: Scope, has_tokens: bool = True
    ) -> Iterator[Trajectory]:
        """The selected trajectories in the order of arrival; without token rows unless ``has_tokens``."""
        for experience in self.experiences(selection, tenant=tenant, has_tokens=has_tokens):
            yield experience.trajectory

    def experiences(
        self, selection: Selection = EVERYTHING, *, tenant: Scope, has_tokens: bool = True
    ) -> Iterator[Experience]:
        """The selected trajectories with task and latest evaluation, in the order of arrival."""
        until = self._now()
        ids = [row.trajectory_id for row in self._selected(selection, tenant, until)]
        yield from self.experiences_of(ids, tenant=tenant, has_tokens=has_tokens, until=until)

    def experiences_of(
        self, trajectory_ids: Sequence[str], *, tenant: Scope, has_tokens: bool = True, until: int | None = None
    ) -> Iterator[Experience]:
        """These trajectories with task and latest evaluation, in the order given.

        ``until`` is the last sequence number whose evaluations count; None = all. Raises StoreError for an id that
        the tenant does not have.
        """
        query = _experience_query(has_tokens, self._now() if until is None else until)
        query = query.where(*in_scope(schema.trajectories.c.tenant, tenant))
        for start in range(0, len(trajectory_ids), _PAGE):
            page = trajectory_ids[start : start + _PAGE]
            with self._engine.connect() as connection:
                rows = connection.execute(query.where(schema.trajectories.c.id.in_(page))).all()
            by_id = {row.id: row for row in rows}
            for trajectory_id in page:
                if trajectory_id not in by_id:
                    raise StoreError(
                        f"no trajectory {trajectory_id!r} is stored for {tenant!r}; look at its tenant"
                    )
                row = by_id[trajectory_id]
                yield _readable(row.id, partial(_experience, row, has_tokens))

    def selected(self, selection: Selection = EVERYTHING, *, tenant: Scope) -> list[Selected]:
        """The selected trajectories, in the order of arrival, without their content."""
        return self._selected(selection, tenant, self._now())

    def evaluation_of(self, trajectory_id: str, *, tenant: Scope) -> Evaluation | None:
        """The trajectory's latest evaluation; None = none is stored for this tenant."""
        table = schema.evaluations
        query = select(table.c.fields).where(
            table.c.trajectory_id == trajectory_id, *in_scope(table.c.tenant, tenant)
        )
        with self._engine.connect() as connection:
            fields = connection.execute(query.order_by(table.c.sequence.desc()).limit(1)).scalar()
        return None if fields is None else from_fields(Evaluation, fields)

    def agent_versions(self) -> list[AgentVersion]:
        """Every stored agent version, in the order of arrival."""
        return list(self._pages(AgentVersion, select(schema.agent_versions), schema.agent_versions))

    def snapshots(self) -> list[Snapshot]:
        """Every stored snapshot, in the order of arrival."""
        return list(self._pages(Snapshot, select(schema.snapshots), schema.snapshots))

    def states(self, cls: type[StateT], record_id: str | None = None) -> list[StateT]:
        """Releases or runs: the present state of each, or all states of one in the order of their storage."""
        table = KINDS[cls].table
        if record_id is None:
            return list(self._pages(cls, select(table), table))
        past = select(schema.history).where(
            schema.history.c.kind == table.name, schema.history.c.record_id == record_id
        )
        return list(self._pages(cls, past, schema.history))

    def _now(self) -> int:
        """The sequence number of the latest trajectory or evaluation."""
        tables = (schema.trajectories, schema.evaluations)
        with self._engine.connect() as connection:
            tops = [connection.execute(select(func.max(table.c.sequence))).scalar() for table in tables]
        return max(top or 0 for top in tops)

    def _selected(self, selection: Selection, tenant: Scope, until: int) -> list[Selected]:
        with self._engine.connect() as connection:
            rows = connection.execute(select_trajectories(selection, tenant, until)).all()
        return [
            Selected(row.trajectory_id, row.task_id, row.family, row.evaluation_id, row.verdict, row.score)
            for row in sorted(rows, key=lambda row: row.sequence)
        ]

    def _records(
        self,
        cls: type[RecordT],
        tenant: Scope,
        extra: Sequence[ColumnElement[bool]],
        parts: Sequence[ColumnElement[bool] | None],
    ) -> Iterator[RecordT]:
        table = KINDS[cls].table
        query = select(table).where(*in_scope(table.c.tenant, tenant), *extra)
        for part in parts:
            yield from self._pages(cls, query if part is None else query.where(part), table)

    def _pages(self, cls: type[RecordT], query: Select[Any], table: Table) -> Iterator[RecordT]:
        """The records of ``query`` over ``table``, in the order of arrival."""
        with self._engine.connect() as connection:
            until = connection.execute(select(func.max(table.c.sequence))).scalar() or 0
        query = query.where(table.c.sequence <= until).order_by(table.c.sequence).limit(_PAGE)
        last = 0
        while True:
            with self._engine.connect() as connection:
                rows = connection.execute(query.where(table.c.sequence > last)).all()
            for row in rows:
                record_id = row.record_id if table is schema.history else row.id
                yield _readable(record_id, partial(from_fields, cls, row.fields))
            if len(rows) < _PAGE:
                return
            last = rows[-1].sequence


def _readable(record_id: str, read: Callable[[], RecordT]) -> RecordT:
    """The result of ``read``; raises StoreError naming the record where it cannot be read."""
    try:
        return read()
    except RecordError as exc:
        raise StoreError(
            f"what is stored as {record_id!r} was damaged from outside: {exc}; restore a copy of the pool"
        ) from exc


def _among_ids(column: ColumnElement[str], ids: Sequence[str] | None) -> Sequence[ColumnElement[bool] | None]:
    """One condition for each page of ids; a single None for all rows."""
    if ids is None:
        return [None]
    return [column.in_(ids[start : start + _PAGE]) for start in range(0, len(ids), _PAGE)]


def _experience_query(has_tokens: bool, until: int) -> Select[Any]:
    judged = latest_evaluation(until)
    left_out = () if has_tokens else ("rows",)
    columns = [column for column in schema.trajectories.c if column.name not in left_out]
    return (
        select(*columns, schema.tasks.c.fields.label("task_fields"), judged.c.fields.label("evaluation_fields"))
        .join(schema.tasks, schema.tasks.c.id == schema.trajectories.c.task_id)
        .outerjoin(judged, judged.c.trajectory_id == schema.trajectories.c.id)
    )


def _experience(row: Any, has_tokens: bool) -> Experience:
    judged = row.evaluation_fields
    return Experience(
        from_fields(Task, row.task_fields),
        trajectory_of(row, has_tokens=has_tokens),
        None if judged is None else from_fields(Evaluation, judged),
    )
