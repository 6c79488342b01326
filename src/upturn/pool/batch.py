"""A batch of records, written in one transaction: all of it or nothing.

Order: tasks, decisions, trajectories, evaluations, feedback, agent versions, snapshots, then releases and runs,
then the rollout key and the import. A trajectory belongs to its task's tenant and an evaluation to its
trajectory's, so those must be stored already or be in the same batch.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Table, func, insert, select, update

from upturn.errors import StoreConflictError
from upturn.pool import schema
from upturn.pool.row import KINDS, Values, row_of
from upturn.records import (
    AgentVersion,
    Decision,
    Evaluation,
    Feedback,
    Release,
    Run,
    Snapshot,
    Task,
    Trajectory,
)

ItemT = TypeVar("ItemT")

_IDS_PER_QUERY = 500
"""SQLite allows 999 parameters in a query; PostgreSQL more."""


class RolloutKey(NamedTuple):
    """Which iteration of which training run a batch was made in; a key is written once."""

    run: str
    iteration: int


class Quarantined(NamedTuple):
    """A line of an imported file that was not stored."""

    line: int
    """Line of a JSONL file or item of a JSON array, from 1."""
    reason: str


def store_page(
    append: Callable[[Sequence[ItemT]], int], page: Sequence[tuple[int, ItemT]]
) -> tuple[int, list[Quarantined]]:
    """Stores a page of (line, item) by ``append``, which returns how many are new; item by item after a conflict.

    Returns how many are new in all, and the conflicting lines.
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


class Imported(NamedTuple):
    """The record of one imported file."""

    tenant: str
    source: str
    """Hash of the file's bytes and of how it was read."""
    path: str
    lines: int
    accepted: int
    quarantined: tuple[Quarantined, ...]


@dataclass(frozen=True, slots=True)
class PoolBatch:
    """Records to be stored in one transaction."""

    tasks: Sequence[Task] = ()
    decisions: Sequence[Decision] = ()
    trajectories: Sequence[Trajectory] = ()
    evaluations: Sequence[Evaluation] = ()
    feedback: Sequence[Feedback] = ()
    agent_versions: Sequence[AgentVersion] = ()
    snapshots: Sequence[Snapshot] = ()
    releases: Sequence[Release] = ()
    """The latest state of each; earlier states stay in the history."""
    runs: Sequence[Run] = ()
    """As releases."""
    rollout: RolloutKey | None = None
    """The key that ``trajectories`` and ``evaluations`` (in the same order) belong to; None = no training rollout.
    Where the key is stored already, the whole batch is a no-op."""
    imported: Imported | None = None
    """The file that this batch completes; None = it completes none."""


@dataclass(slots=True)
class BatchWriter:
    """Applies batches to a connection; only the committer's thread calls it."""

    clock: Callable[[], float] = time.time
    _sequence: int = field(default=0, init=False)

    def start_after(self, connection: Connection) -> None:
        """Continue the sequence numbers after the pool's last one."""
        tops = [connection.execute(select(func.max(table.c.sequence))).scalar() for table in schema.LEDGER]
        tops.append(connection.execute(select(func.max(schema.history.c.sequence))).scalar())
        self._sequence = max((top for top in tops if top is not None), default=0)

    def apply(self, connection: Connection, batch: "PreparedBatch") -> int:
        """Stores the batch; returns how many of its records are new.

        Raises StoreConflictError, with nothing stored, where an id is stored with other content, or a trajectory's
        task or an evaluation's trajectory is unknown.
        """
        if batch.rollout is not None and _is_appended(connection, batch.rollout):
            return 0
        new = 0
        for table, rows in batch.rows.items():
            _complete(connection, table, rows)
            new += self._insert_new(connection, table, rows)
        for table, rows in batch.states.items():
            new += self._put_states(connection, table, rows)
        self._write_keys(connection, batch)
        return new

    def _insert_new(self, connection: Connection, table: Table, rows: Sequence[Values]) -> int:
        digests = _column_by_id(connection, table, "digest", [row["id"] for row in rows])
        fresh: list[Values] = []
        for row in rows:
            stored = digests.get(row["id"])
            if stored is None:
                digests[row["id"]] = row["digest"]
                fresh.append(row | self._stamp())
            elif stored != row["digest"]:
                raise StoreConflictError(
                    f"{table.name} {row['id']!r} is stored with other content, and what was acknowledged is never "
                    "changed; give changed content a new id"
                )
        if fresh:
            connection.execute(insert(table), fresh)
        return len(fresh)

    def _put_states(self, connection: Connection, table: Table, rows: Sequence[Values]) -> int:
        changed = 0
        for row in rows:
            stored = _column_by_id(connection, table, "digest", [row["id"]]).get(row["id"])
            if stored == row["digest"]:
                continue
            stamped = row | self._stamp()
            if stored is None:
                connection.execute(insert(table), stamped)
            else:
                connection.execute(update(table).where(table.c.id == row["id"]), stamped)
            connection.execute(
                insert(schema.history),
                {"kind": table.name, "record_id": row["id"], "fields": row["fields"]}
                | {name: stamped[name] for name in ("sequence", "recorded_at")},
            )
            changed += 1
        return changed

    def _write_keys(self, connection: Connection, batch: "PreparedBatch") -> None:
        if batch.rollout is not None and batch.rollout_ids:
            places = [
                {"run": batch.rollout.run, "iteration": batch.rollout.iteration, "position": position}
                | {"trajectory_id": trajectory_id, "evaluation_id": evaluation_id}
                for position, (trajectory_id, evaluation_id) in enumerate(batch.rollout_ids)
            ]
            connection.execute(insert(schema.rollouts), places)
        if batch.imported is not None:
            self._write_import(connection, batch.imported)

    def _write_import(self, connection: Connection, imported: Imported) -> None:
        key: Values = {"tenant": imported.tenant, "source": imported.source, "recorded_at": self.clock()}
        counts: Values = {
            "path": imported.path,
            "lines": imported.lines,
            "accepted": imported.accepted,
            "quarantined": len(imported.quarantined),
        }
        connection.execute(insert(schema.imports), key | counts)
        if imported.quarantined:
            lines = [key | {"line": bad.line, "reason": bad.reason} for bad in imported.quarantined]
            connection.execute(insert(schema.quarantine), lines)

    def _stamp(self) -> Values:
        self._sequence += 1
        return {"sequence": self._sequence, "recorded_at": self.clock()}


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A batch as rows, prepared in the caller's thread, so that the writing thread only writes."""

    rows: Mapping[Table, Sequence[Values]]
    """Records that never change, by table, in the order of writing."""
    states: Mapping[Table, Sequence[Values]]
    """Records whose state changes: releases and runs."""
    rollout: RolloutKey | None
    rollout_ids: Sequence[tuple[str, str]]
    """Trajectory and evaluation id of each place of the rollout."""
    imported: Imported | None


def prepare(batch: PoolBatch) -> PreparedBatch:
    """The batch as rows; raises RecordError for values that cannot be read back, StoreConflictError for an uneven
    rollout.
    """
    evidence = (batch.tasks, batch.decisions, batch.trajectories, batch.evaluations, batch.feedback)
    rows = _by_table((*evidence, batch.agent_versions, batch.snapshots))
    ids: list[tuple[str, str]] = []
    if batch.rollout is not None:
        ids = [(trajectory.id, evaluation.id) for trajectory, evaluation in _pairs(batch)]
    return PreparedBatch(rows, _by_table((batch.releases, batch.runs)), batch.rollout, ids, batch.imported)


def _pairs(batch: PoolBatch) -> list[tuple[Trajectory, Evaluation]]:
    pairs = list(zip(batch.trajectories, batch.evaluations, strict=False))
    is_even = len(batch.trajectories) == len(batch.evaluations)
    if not is_even or any(trajectory.id != evaluation.trajectory_id for trajectory, evaluation in pairs):
        raise StoreConflictError(
            f"rollout {batch.rollout!r} needs each trajectory's evaluation at the same place, got "
            f"{len(batch.trajectories)} trajectories and {len(batch.evaluations)} evaluations; pair them up"
        )
    return pairs


def _by_table(groups: Iterable[Sequence[Any]]) -> dict[Table, list[Values]]:
    return {KINDS[type(group[0])].table: [row_of(record) for record in group] for group in groups if group}


def _is_appended(connection: Connection, key: RolloutKey) -> bool:
    where = (schema.rollouts.c.run == key.run, schema.rollouts.c.iteration == key.iteration)
    return connection.execute(select(schema.rollouts.c.position).where(*where).limit(1)).first() is not None


def _complete(connection: Connection, table: Table, rows: Sequence[Values]) -> None:
    """Fill in the tenant of rows that inherit it from their task or trajectory."""
    if table is schema.trajectories:
        _inherit_tenant(connection, rows, schema.tasks, "task_id")
    elif table is schema.evaluations:
        _inherit_tenant(connection, rows, schema.trajectories, "trajectory_id")
        task_ids = _column_by_id(connection, schema.trajectories, "task_id", [row["trajectory_id"] for row in rows])
        for row in rows:
            if row["task_id"] != task_ids[row["trajectory_id"]]:
                raise StoreConflictError(
                    f"evaluation {row['id']!r} names task {row['task_id']!r}, its trajectory "
                    f"{row['trajectory_id']!r} belongs to {task_ids[row['trajectory_id']]!r}; nothing is stored"
                )


def _inherit_tenant(connection: Connection, rows: Sequence[Values], owners: Table, reference: str) -> None:
    tenants = _column_by_id(connection, owners, "tenant", [row[reference] for row in rows])
    for row in rows:
        if row[reference] not in tenants:
            raise StoreConflictError(
                f"{row['id']!r} belongs to {owners.name} {row[reference]!r}, which is not stored; "
                "store that first, or in the same batch"
            )
        row["tenant"] = tenants[row[reference]]


def _column_by_id(connection: Connection, table: Table, column: str, ids: Sequence[Any]) -> dict[Any, Any]:
    """One column of the rows with these ids, by id; ids that are not stored are left out."""
    values: dict[Any, Any] = {}
    for start in range(0, len(ids), _IDS_PER_QUERY):
        part = ids[start : start + _IDS_PER_QUERY]
        rows = connection.execute(select(table.c.id, table.c[column]).where(table.c.id.in_(part)))
        values.update((row[0], row[1]) for row in rows)
    return values
