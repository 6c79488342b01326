"""Reads of the pool. Every read has a tenant; ALL_TENANTS is for the operator.

Long reads are paged, so that a slow consumer does not keep a transaction open. Records that arrive after the first
page are not returned.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Select, Table, func, or_, select

from upturn.errors import RecordError, StoreError
from upturn.pool import schema
from upturn.pool.database import Location
from upturn.pool.row import KINDS, trajectory_of
from upturn.pool.selection import (
    ALL_TENANTS,
    EVERYTHING,
    Scope,
    Selection,
    in_scope,
    latest_evaluation,
    select_trajectories,
)
from upturn.pool.tokens import load_blobs, unpack_rows
from upturn.records import (
    AgentLimits,
    AgentVersion,
    Decision,
    Evaluation,
    EvaluationVerdict,
    Feedback,
    Release,
    Run,
    Snapshot,
    Task,
    TokenRow,
    Trajectory,
    from_fields,
)

RecordT = TypeVar("RecordT")
StateT = TypeVar("StateT", Release, Run, AgentLimits)

_PAGE = 500
"""Rows read at once: a few MB with tokens."""


class Experience(NamedTuple):
    """One data point: a trajectory with its task and latest evaluation."""

    task: Task
    trajectory: Trajectory
    evaluation: Evaluation | None
    """None = no evaluation is stored."""


class Selected(NamedTuple):
    """A selected trajectory, without its content."""

    trajectory_id: str
    task_id: str
    family: str
    evaluation_id: str | None
    """None = no evaluation is stored."""
    verdict: EvaluationVerdict
    score: float | None


class States(Generic[StateT]):
    """The current states of a class, read in a transaction."""

    def __init__(self, connection: Connection, cls: type[StateT]) -> None:
        self._connection = connection
        self._cls: type[StateT] = cls
        self._table = KINDS[cls].table

    def get(self, record_id: str) -> StateT | None:
        """Returns the record's current state; None = it is not stored."""
        query = select(self._table.c.fields).where(self._table.c.id == record_id)
        fields = self._connection.execute(query).scalar()
        return None if fields is None else from_fields(self._cls, fields)

    def all(self) -> list[StateT]:
        """Returns the current states, in the order of their last change."""
        query = select(self._table.c.fields).order_by(self._table.c.sequence)
        return [from_fields(self._cls, fields) for fields in self._connection.execute(query).scalars()]


class PoolReader:
    """Reads of a pool; safe to share between threads."""

    def __init__(self, location: Location, engine: Engine) -> None:
        """Use ``Pool.open`` instead."""
        self.location = location
        """The file or the URL; its text has no password."""
        self.engine = engine
        """A read-only engine for further queries; limit them to a tenant with ``in_scope``."""

    def tasks(
        self,
        *,
        tenant: Scope,
        ids: Sequence[str] | None = None,
        families: Sequence[str] = (),
        environments: Sequence[str] = (),
    ) -> Iterator[Task]:
        """Returns tasks in the order of arrival; ``ids``, ``families`` and ``environments`` restrict them."""
        conditions = [schema.tasks.c.family.in_(families)] if families else []
        conditions += [schema.tasks.c.environment.in_(environments)] if environments else []
        return self._records(Task, tenant, conditions, (schema.tasks.c.id, ids))

    def decisions(
        self, *, tenant: Scope, task_ids: Sequence[str] | None = None, episode: str | None = None
    ) -> Iterator[Decision]:
        """Returns decisions in the order of arrival; ``task_ids`` and ``episode`` restrict them."""
        conditions = [] if episode is None else [schema.decisions.c.episode == episode]
        return self._records(Decision, tenant, conditions, (schema.decisions.c.task_id, task_ids))

    def feedback(self, *, tenant: Scope, subject_id: str | None = None) -> Iterator[Feedback]:
        """Returns feedback in the order of arrival; ``subject_id`` restricts it to one subject."""
        conditions = [] if subject_id is None else [schema.feedback.c.subject_id == subject_id]
        return self._records(Feedback, tenant, conditions)

    def trajectories(
        self, selection: Selection = EVERYTHING, *, tenant: Scope, has_tokens: bool = True
    ) -> Iterator[Trajectory]:
        """Yields the selected trajectories in the order of arrival; without token rows unless ``has_tokens``."""
        for experience in self.experiences(selection, tenant=tenant, has_tokens=has_tokens):
            yield experience.trajectory

    def experiences(
        self, selection: Selection = EVERYTHING, *, tenant: Scope, has_tokens: bool = True
    ) -> Iterator[Experience]:
        """Yields the selected trajectories with task and latest evaluation, in the order of arrival."""
        until = self._last_sequence()
        ids = [row.trajectory_id for row in self._selected(selection, tenant, until)]
        yield from self.experiences_of(ids, tenant=tenant, has_tokens=has_tokens, until=until)

    def experiences_of(
        self, trajectory_ids: Sequence[str], *, tenant: Scope, has_tokens: bool = True, until: int | None = None
    ) -> Iterator[Experience]:
        """Yields these trajectories, in this order, with task and latest evaluation.

        ``until`` is the last sequence number of evaluations to read; None = all. Raises StoreError for an id that
        the tenant does not have.
        """
        query = _experience_query(has_tokens, self._last_sequence() if until is None else until)
        for start in range(0, len(trajectory_ids), _PAGE):
            page = trajectory_ids[start : start + _PAGE]
            with self.engine.connect() as connection:
                rows = connection.execute(query.where(schema.trajectories.c.id.in_(page))).all()
                packed = ((row.tenant, row.tokens) for row in rows) if has_tokens else ()
                blobs = load_blobs(connection, packed)
            # with the tenant in the query, SQLite would read all of the tenant's trajectories for each page
            by_id = {row.id: row for row in rows if tenant is ALL_TENANTS or row.tenant == tenant}
            for trajectory_id in page:
                if trajectory_id not in by_id:
                    raise StoreError(f"no trajectory {trajectory_id!r} is stored for {tenant!r}; check its tenant")
                row = by_id[trajectory_id]
                yield read_record(row.id, partial(_experience, row, blobs if has_tokens else None))

    def trajectory_ids(self, record_id: str, *, tenant: Scope) -> list[str]:
        """Returns the ids of all trajectories of a trajectory, task or decision, in the order of arrival."""
        decided = select(schema.decisions.c.task_id).where(schema.decisions.c.id == record_id)
        table = schema.trajectories
        matches = or_(table.c.id == record_id, table.c.task_id == record_id, table.c.task_id.in_(decided))
        query = select(table.c.id).where(matches, *in_scope(table.c.tenant, tenant)).order_by(table.c.sequence)
        with self.engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def selected(self, selection: Selection = EVERYTHING, *, tenant: Scope) -> list[Selected]:
        """Returns the selected trajectories in the order of arrival, without their content."""
        return self._selected(selection, tenant, self._last_sequence())

    def evaluation_of(self, trajectory_id: str, *, tenant: Scope) -> Evaluation | None:
        """Returns the trajectory's latest evaluation; None = not stored for this tenant."""
        table = schema.evaluations
        query = select(table.c.fields).where(
            table.c.trajectory_id == trajectory_id, *in_scope(table.c.tenant, tenant)
        )
        with self.engine.connect() as connection:
            fields = connection.execute(query.order_by(table.c.sequence.desc()).limit(1)).scalar()
        return None if fields is None else from_fields(Evaluation, fields)

    def agent_versions(self) -> list[AgentVersion]:
        """Returns all agent versions in the order of arrival."""
        return list(self._pages(AgentVersion, select(schema.agent_versions), schema.agent_versions))

    def snapshots(self) -> list[Snapshot]:
        """Returns all snapshots in the order of arrival."""
        return list(self._pages(Snapshot, select(schema.snapshots), schema.snapshots))

    def states(self, cls: type[StateT], record_id: str | None = None) -> list[StateT]:
        """Returns the current state of each record, or all states of one in the order of their storage."""
        table = KINDS[cls].table
        if record_id is None:
            return list(self._pages(cls, select(table), table))
        past = select(schema.history).where(
            schema.history.c.kind == table.name, schema.history.c.record_id == record_id
        )
        return list(self._pages(cls, past, schema.history))

    def _last_sequence(self) -> int:
        """Returns the sequence number of the latest trajectory, evaluation or feedback."""
        tables = (schema.trajectories, schema.evaluations, schema.feedback)
        with self.engine.connect() as connection:
            return max(connection.execute(select(func.max(table.c.sequence))).scalar() or 0 for table in tables)

    def _selected(self, selection: Selection, tenant: Scope, until: int) -> list[Selected]:
        with self.engine.connect() as connection:
            rows = connection.execute(select_trajectories(selection, tenant, until)).all()
        return [
            Selected(row.trajectory_id, row.task_id, row.family, row.evaluation_id, row.verdict, row.score)
            for row in sorted(rows, key=lambda row: row.sequence)
        ]

    def _records(
        self,
        cls: type[RecordT],
        tenant: Scope,
        conditions: Sequence[ColumnElement[bool]],
        ids: tuple[ColumnElement[str], Sequence[str] | None] | None = None,
    ) -> Iterator[RecordT]:
        """Yields records that meet the conditions; ``ids`` restricts a column to values (None = any)."""
        table = KINDS[cls].table
        query = select(table).where(*in_scope(table.c.tenant, tenant), *conditions)
        if ids is None or ids[1] is None:
            yield from self._pages(cls, query, table)
            return
        column, values = ids[0], ids[1]
        for start in range(0, len(values), _PAGE):
            yield from self._pages(cls, query.where(column.in_(values[start : start + _PAGE])), table)

    def _pages(self, cls: type[RecordT], query: Select[Any], table: Table) -> Iterator[RecordT]:
        """Yields the records of ``query`` over ``table`` in the order of arrival."""
        with self.engine.connect() as connection:
            until = connection.execute(select(func.max(table.c.sequence))).scalar() or 0
        query = query.where(table.c.sequence <= until).order_by(table.c.sequence).limit(_PAGE)
        last = 0
        while True:
            with self.engine.connect() as connection:
                rows = connection.execute(query.where(table.c.sequence > last)).all()
            for row in rows:
                record_id = row.record_id if table is schema.history else row.id
                yield read_record(record_id, partial(from_fields, cls, row.fields))
            if len(rows) < _PAGE:
                return
            last = rows[-1].sequence


def current_state(pool: PoolReader, cls: type[StateT], record_id: str) -> StateT | None:
    """Returns the current state of a record; None = it is not stored."""
    with pool.engine.connect() as connection:
        return States(connection, cls).get(record_id)


def read_record(record_id: str, decode: Callable[[], RecordT]) -> RecordT:
    """Returns the result of ``decode``; raises StoreError with the record's id if it cannot be read."""
    try:
        return decode()
    except RecordError as exc:
        raise StoreError(f"the stored record {record_id!r} is damaged: {exc}; restore a copy of the pool") from exc


def _experience_query(has_tokens: bool, until: int) -> Select[Any]:
    latest = latest_evaluation(until)
    columns = [column for column in schema.trajectories.c if has_tokens or column.name != "tokens"]
    return (
        select(*columns, schema.tasks.c.fields.label("task_fields"), latest.c.fields.label("evaluation_fields"))
        .join(schema.tasks, schema.tasks.c.id == schema.trajectories.c.task_id)
        .outerjoin(latest, latest.c.trajectory_id == schema.trajectories.c.id)
    )


def _experience(row: Any, blobs: Mapping[str, Mapping[bytes, bytes]] | None) -> Experience:
    """Returns the data point of a row; without token rows if ``blobs``, by tenant and digest, is None."""
    evaluation, rows = row.evaluation_fields, tuple[TokenRow, ...]()
    if blobs is not None and row.tokens is not None:
        rows = unpack_rows(row.tokens, blobs[row.tenant])
    return Experience(
        from_fields(Task, row.task_fields),
        trajectory_of(row, rows),
        None if evaluation is None else from_fields(Evaluation, evaluation),
    )
