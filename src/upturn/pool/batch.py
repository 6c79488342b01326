"""Writing records in one transaction: all of them or none.

Order of writing: tasks, decisions, calls, contents of calls, trajectories, evaluations, feedback, agent versions,
snapshots, releases, runs, limits of agents, then the rollout key and the import. A trajectory belongs to its task's
tenant and an evaluation to its trajectory's tenant, so the task and the trajectory must be stored already or be
written in the same transaction.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

from sqlalchemy import Connection, Table, insert, select, update

from upturn.errors import StoreConflictError
from upturn.pool import schema
from upturn.pool.audit import StoredRows, append_entries
from upturn.pool.database import backend_in, insert_new, insert_rows, last_numbers, rows_by_id
from upturn.pool.imported import Imported, Quarantined, write_import
from upturn.pool.points import StoredTask, add_points
from upturn.pool.row import KINDS, PoolRecord, ReadyRow, Values, ready_row
from upturn.pool.tokens import TokenBlob
from upturn.records import Evaluation, Trajectory, from_fields

ItemT = TypeVar("ItemT")
OwnerT = TypeVar("OwnerT")


class RolloutKey(NamedTuple):
    """The training run and iteration that rollouts belong to; a key is written once."""

    run: str
    iteration: int


def store_page(
    append: Callable[[Sequence[ItemT]], int], page: Sequence[tuple[int, ItemT]]
) -> tuple[int, list[Quarantined]]:
    """Stores a page of (line, item) with ``append``, which returns how many are new; one by one after a conflict.

    Returns how many are new in total, and the conflicting lines.
    """
    try:
        return append([item for _, item in page]), []
    except StoreConflictError:
        added, conflicts = 0, []
        for line, item in page:
            try:
                added += append([item])
            except StoreConflictError as exc:
                conflicts.append(Quarantined(line, str(exc)))
        return added, conflicts


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """Records as rows, prepared in the caller's thread, so that the writing thread only writes."""

    rows: Mapping[Table, Sequence[Values]]
    """In the order of writing."""
    blobs: Mapping[str, Sequence[TokenBlob]]
    """What the token rows of trajectories refer to, by the trajectory's id."""
    rollout: RolloutKey | None
    rollout_ids: Sequence[tuple[str, str]]
    """(trajectory id, evaluation id) of each position of the rollout."""
    imported: Imported | None

    @property
    def may_be_joined(self) -> bool:
        """Whether it has only records that never change, so that it can be written together with others."""
        is_plain = self.rollout is None and self.imported is None
        return is_plain and not any(table in schema.STATES for table in self.rows)


def prepare(
    records: Sequence[PoolRecord | ReadyRow], rollout: RolloutKey | None, imported: Imported | None
) -> PreparedBatch:
    """Returns the records as rows.

    Raises RecordError for values that cannot be read back, and StoreConflictError for a rollout whose trajectories
    and evaluations do not correspond.
    """
    rows: dict[Table, list[Values]] = {kind.table: [] for kind in KINDS.values()}
    blobs: dict[str, Sequence[TokenBlob]] = {}
    for record in records:
        row = record if isinstance(record, ReadyRow) else ready_row(record)
        rows[row.table].append(row.values)
        if row.blobs:
            blobs[str(row.values["id"])] = row.blobs
    ids = [] if rollout is None else _rollout_ids(records, rollout)
    return PreparedBatch({table: group for table, group in rows.items() if group}, blobs, rollout, ids, imported)


def _rollout_ids(records: Sequence[PoolRecord | ReadyRow], rollout: RolloutKey) -> list[tuple[str, str]]:
    trajectories = [record.id for record in records if isinstance(record, Trajectory)]
    evaluations = [record for record in records if isinstance(record, Evaluation)]
    if trajectories != [evaluation.trajectory_id for evaluation in evaluations]:
        raise StoreConflictError(
            f"rollout {rollout!r} needs one evaluation per trajectory, in the same order, got {len(trajectories)} "
            f"trajectories and {len(evaluations)} evaluations"
        )
    return [(evaluation.trajectory_id, evaluation.id) for evaluation in evaluations]


@dataclass(slots=True)
class BatchWriter:
    """Writes batches to a connection; only the committer's thread calls it."""

    clock: Callable[[], float] = time.time
    _sequence: int = field(default=0, init=False)
    _seen: object = field(default=None, init=False)
    """Version of the database that ``_sequence`` belongs to; None = not known."""
    _stored: list[StoredRows] = field(default_factory=list, init=False)
    """Rows of this transaction, for the audit log. A write that fails adds none: adding is the last it does."""

    def start_transaction(self, connection: Connection) -> None:
        """Continues the sequence numbers after the pool's last one, which may be of another process."""
        self._stored.clear()
        version = backend_in(connection).data_version(connection)
        if version is not None and version == self._seen:
            return
        self._seen = version
        last = last_numbers().run(connection, [{}]).fetchone()
        self._sequence = max((number for number in last if number is not None), default=0)

    def end_transaction(self, connection: Connection) -> None:
        """Appends the transaction's rows to the audit log, all at once."""
        if self._stored:
            append_entries(connection, self._stored)

    def write(self, connection: Connection, batch: PreparedBatch) -> int:
        """Writes the batch; returns how many of its records are new.

        Raises StoreConflictError, with nothing stored, if an id is stored with other content, or a trajectory's
        task or an evaluation's trajectory is not stored.
        """
        if batch.rollout is not None and _is_stored(connection, batch.rollout):
            return 0
        new = 0
        stored: list[StoredRows] = []
        tasks: dict[Any, StoredTask] = {}
        for table, rows in batch.rows.items():
            if table in schema.STATES:
                added = self._put_states(connection, table, rows)
            else:
                if table is schema.trajectories:
                    tasks = _read_tasks(connection, {row["task_id"] for row in rows})
                    _inherit(rows, tasks)
                    _insert_blobs(connection, rows, batch.blobs)
                elif table is schema.evaluations:
                    _judge(rows, _read_judged(connection, {row["trajectory_id"] for row in rows}))
                added = self._insert_new(connection, table, rows)
            new += len(added.rows)
            if added.rows and table is not schema.call_contents:
                stored.append(added)
        by_table = dict(stored)
        judged = by_table.get(schema.evaluations, ())
        add_points(connection, by_table.get(schema.trajectories, ()), judged, tasks)
        if batch.rollout is not None and batch.rollout_ids:
            key = {"run": batch.rollout.run, "iteration": batch.rollout.iteration}
            positions = [
                key | {"position": position, "trajectory_id": trajectory_id, "evaluation_id": evaluation_id}
                for position, (trajectory_id, evaluation_id) in enumerate(batch.rollout_ids)
            ]
            connection.execute(insert(schema.rollouts), positions)
        if batch.imported is not None:
            write_import(connection, batch.imported, self.clock())
        self._stored += stored
        return new

    def write_joined(self, connection: Connection, batches: Sequence[PreparedBatch]) -> list[int]:
        """Writes batches that may be joined with few statements per table; all rows are as ``write`` makes them.

        Tasks may be repeated: those of a group of trajectories are. Raises StoreError, with a part of the rows
        written, unless all other records are new.
        """
        last = self._sequence
        try:
            parts, counts, tasks = self._stamped(connection, batches)
            by_table = {kind.table: list[Values]() for kind in KINDS.values()}
            for part in parts:
                by_table[part.table] += [cast(Values, row) for row in part.rows]
            self._insert_joined(connection, by_table, tasks, batches)
        except BaseException:
            self._sequence = last
            raise
        self._stored += [part for part in parts if part.table is not schema.call_contents]
        return counts

    def _stamped(
        self, connection: Connection, batches: Sequence[PreparedBatch]
    ) -> tuple[list[StoredRows], list[int], dict[Any, StoredTask]]:
        """Returns the new rows with their numbers, how many each batch has, and the tasks of all trajectories."""
        named = {row["id"] for batch in batches for row in batch.rows.get(schema.tasks, ())}
        named |= {row["task_id"] for batch in batches for row in batch.rows.get(schema.trajectories, ())}
        columns = ("digest", *StoredTask._fields)
        stored = rows_by_id(connection, schema.tasks, columns, list(named))
        digests = {name: row[0] for name, row in stored.items()}
        tasks = {name: StoredTask(*row[1:]) for name, row in stored.items()}
        parts: list[StoredRows] = []
        counts: list[int] = []
        for batch in batches:
            count = 0
            for table, rows in batch.rows.items():
                new = []
                for row in rows:
                    if table is schema.tasks:
                        if digests.setdefault(row["id"], row["digest"]) != row["digest"]:
                            raise StoreConflictError(f"task {row['id']!r} has other content; write it alone")
                        if row["id"] in tasks:
                            continue
                    stamped = self._stamp() | row  # a row of another pool has its own time
                    new.append(stamped)
                    if table is schema.tasks:
                        tasks[row["id"]] = StoredTask(*(cast(Any, stamped[name]) for name in StoredTask._fields))
                count += len(new)
                if new:
                    parts.append(StoredRows(table, new))
            counts.append(count)
        return parts, counts, tasks

    def _insert_joined(
        self,
        connection: Connection,
        by_table: Mapping[Table, list[Values]],
        tasks: Mapping[Any, StoredTask],
        batches: Sequence[PreparedBatch],
    ) -> None:
        trajectories, evaluations = by_table[schema.trajectories], by_table[schema.evaluations]
        evaluated = [row["trajectory_id"] for row in evaluations]
        if len(set(evaluated)) != len(evaluated):  # the first one has a point of its own
            raise StoreConflictError("a trajectory has several of the evaluations; write them one by one")
        _inherit(trajectories, tasks)
        judged = {row["id"]: _Judged(str(row["tenant"]), str(row["task_id"])) for row in trajectories}
        judged |= _read_judged(connection, [name for name in evaluated if name not in judged])
        _judge(evaluations, judged)
        blobs = {name: packed for batch in batches for name, packed in batch.blobs.items()}
        _insert_blobs(connection, trajectories, blobs)
        for table, rows in by_table.items():
            if rows:
                insert_rows(connection, table, rows)
        add_points(connection, trajectories, evaluations, tasks)

    def _insert_new(self, connection: Connection, table: Table, rows: Sequence[Values]) -> StoredRows:
        """Returns the rows that were not stored."""
        last = self._sequence
        stamped = [self._stamp() | row for row in rows]  # a row of another pool has its own time
        new = _insert_others(connection, table, stamped)
        if len(new) != len(rows):
            # repeated rows take no number
            self._sequence = max([last, *(cast(int, row["sequence"]) for row in new)])
        return StoredRows(table, new)

    def _put_states(self, connection: Connection, table: Table, rows: Sequence[Values]) -> StoredRows:
        changed: list[Values] = []
        for row in rows:
            stored = rows_by_id(connection, table, ("digest",), [row["id"]]).get(row["id"])
            if stored == (row["digest"],):
                continue
            stamp = self._stamp()
            if stored is None:
                connection.execute(insert(table), row | stamp)
            else:
                connection.execute(update(table).where(table.c.id == row["id"]), row | stamp)
            state: Values = {"kind": table.name, "record_id": row["id"], "fields": row["fields"]}
            connection.execute(insert(schema.history), state | stamp)
            changed.append(state | stamp)
        return StoredRows(schema.history, changed)

    def _stamp(self) -> Values:
        self._sequence += 1
        return {"sequence": self._sequence, "recorded_at": self.clock()}


def _insert_blobs(connection: Connection, rows: Sequence[Values], blobs: Mapping[str, Sequence[TokenBlob]]) -> None:
    """Stores those blobs of trajectories that their tenant does not have."""
    new: dict[tuple[Any, bytes], Values] = {
        (row["tenant"], blob.digest): {"tenant": row["tenant"], "digest": blob.digest, "data": blob.data}
        for row in rows
        for blob in blobs.get(str(row["id"]), ())
    }
    if new:
        insert_new(schema.token_blobs).run(connection, list(new.values()))


def _insert_others(connection: Connection, table: Table, rows: Sequence[Values]) -> Sequence[Values]:
    """Inserts the rows that are not stored, and returns them.

    Raises StoreConflictError for stored ones with other content.
    """
    if insert_new(table).run(connection, rows).rowcount == len(rows):
        return rows
    stored = rows_by_id(connection, table, ("sequence", "digest"), [row["id"] for row in rows])
    new: list[Values] = []
    for row in rows:
        sequence, hashed = stored[row["id"]]
        if sequence == row["sequence"]:
            new.append(row)
        elif hashed != row["digest"] and not _is_same_record(connection, table, row):
            raise StoreConflictError(
                f"{table.name} {row['id']!r} is stored with other content, and stored records never change; "
                "give changed content a new id"
            )
    return new


def _is_same_record(connection: Connection, table: Table, row: Values) -> bool:
    """Whether a record that is stored without later fields, by an earlier version, is the same as the row's."""
    cls = next(kind for kind, stored in KINDS.items() if stored.table is table)
    if cls is Trajectory:
        return False
    fields = connection.execute(select(table.c.fields).where(table.c.id == row["id"])).scalar()
    return fields is not None and ready_row(from_fields(cls, fields)).values["digest"] == row["digest"]


def _is_stored(connection: Connection, key: RolloutKey) -> bool:
    where = (schema.rollouts.c.run == key.run, schema.rollouts.c.iteration == key.iteration)
    return connection.execute(select(schema.rollouts.c.position).where(*where).limit(1)).first() is not None


class _Judged(NamedTuple):
    """What evaluations have of their trajectory's row."""

    tenant: str
    task_id: str


def _read_tasks(connection: Connection, ids: Collection[Any]) -> dict[Any, StoredTask]:
    """Returns the stored ones of these tasks by id."""
    rows = rows_by_id(connection, schema.tasks, StoredTask._fields, list(ids))
    return {name: StoredTask(*row) for name, row in rows.items()}


def _read_judged(connection: Connection, ids: Collection[Any]) -> dict[Any, _Judged]:
    """Returns the stored ones of these trajectories by id."""
    rows = rows_by_id(connection, schema.trajectories, _Judged._fields, list(ids))
    return {name: _Judged(*row) for name, row in rows.items()}


def _inherit(trajectories: Sequence[Values], tasks: Mapping[Any, StoredTask]) -> None:
    """Fills in the tenants of trajectories; raises StoreConflictError unless their tasks are stored."""
    for row in trajectories:
        row["tenant"] = _owner(row, schema.tasks, "task_id", tasks).tenant


def _judge(evaluations: Sequence[Values], judged: Mapping[Any, _Judged]) -> None:
    """Fills in the tenants of evaluations; raises StoreConflictError unless their trajectories are stored."""
    for row in evaluations:
        tenant, task_id = _owner(row, schema.trajectories, "trajectory_id", judged)
        row["tenant"] = tenant
        if row["task_id"] != task_id:
            raise StoreConflictError(
                f"evaluation {row['id']!r} names task {row['task_id']!r}, its trajectory "
                f"{row['trajectory_id']!r} belongs to {task_id!r}; nothing is stored"
            )


def _owner(row: Values, owners: Table, reference: str, stored: Mapping[Any, OwnerT]) -> OwnerT:
    owner = stored.get(row[reference])
    if owner is None:
        raise StoreConflictError(
            f"{row['id']!r} belongs to {owners.name} {row[reference]!r}, which is not stored; "
            "store that first, or in the same batch"
        )
    return owner
