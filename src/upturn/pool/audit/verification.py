"""Whether the stored records are those that were written: their content, their columns, and the entries of the log.

Each record is compared with its digest, its columns with its content, and its digest, tenant and time with its
entry in the audit log, which is compared with its tree (``log_check``). So a deleted record is named like a changed
one. Records that were erased on purpose have a tombstone (``access.erasure``), which an operator's act covers.

Not covered: the tables of rollouts, imports and quarantine, the contents of calls, and somebody who computes all
digests, hashes and the tree anew; signed checkpoints find that.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby, islice
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    ScalarSelect,
    Select,
    Table,
    and_,
    exists,
    literal,
    or_,
    select,
)

from upturn.errors import RecordError
from upturn.pool import schema
from upturn.pool.audit.derived import embedding_problems, point_problems
from upturn.pool.audit.entry import LOGGED, Entry, entries_of
from upturn.pool.audit.erasure import ERASURES, erasure_digest
from upturn.pool.audit.log_check import log_problems
from upturn.pool.audit.merkle import Frontier
from upturn.pool.audit.problem import Problem
from upturn.pool.row import KINDS, digest, trajectory_of
from upturn.pool.tokens import blob_digest, load_blobs, rows_json
from upturn.records import Trajectory, from_fields

_CLASSES: Mapping[Table, type[Any]] = {kind.table: cls for cls, kind in KINDS.items()}
_ROWS_AT_ONCE = 500
UPGRADE = "chains"
"""Kind of the acts that say what was wrong with a pool when its log began."""


def ledger_problems(engine: Engine) -> Iterator[Problem]:
    """Yields what differs from what was written.

    All is read in one transaction, so a pool that is being written may be checked.
    """
    with engine.connect() as connection:
        yield from audit_problems(connection, Frontier())


def audit_problems(
    connection: Connection, tree: Frontier, roots: dict[int, bytes] | None = None
) -> Iterator[Problem]:
    """Yields what differs from what was written, in one transaction.

    ``tree``, empty, becomes that of the log; ``roots`` gets its root at each size that is a key.
    """
    yield from log_problems(connection, tree, roots)
    for table in LOGGED:
        yield from _record_problems(connection, table)
        yield from _missing_records(connection, table)
    yield from _blob_problems(connection)
    yield from point_problems(connection)
    yield from embedding_problems(connection)
    for table in schema.STATES:
        yield from _row_problems(connection, table)
        yield from _state_problems(connection, table, schema.history)
    yield from _state_problems(connection, schema.api_keys, schema.admin_acts)
    for table, owners, reference in (
        (schema.trajectories, schema.tasks, "task_id"),
        (schema.evaluations, schema.trajectories, "trajectory_id"),
    ):
        yield from _owner_problems(connection, table, owners, reference)
    yield from _erasure_problems(connection)
    yield from _problems_before_the_log(connection)


def _name(table: Table, row: Any) -> tuple[str, str]:
    """Returns kind and id of a row, as in its entry."""
    if table is schema.history:
        return row.kind, row.record_id
    return table.name, row.record_id if table is schema.admin_acts else row.id


def _matches(table: Table) -> ColumnElement[bool]:
    """Returns the condition that an entry is that of a row."""
    kind = table.c.kind if table is schema.history else literal(table.name)
    return and_(schema.audit_entries.c.sequence == table.c.sequence, schema.audit_entries.c.kind == kind)


def _is_tombstone(kind: ColumnElement[str], record_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Returns the condition that a row of ``erasures`` is the last one of a record."""
    table, later = schema.erasures, schema.erasures.alias()
    is_later = (later.c.kind == table.c.kind, later.c.record_id == table.c.record_id, later.c.act > table.c.act)
    return and_(table.c.kind == kind, table.c.record_id == record_id, ~exists().where(*is_later))


def _position_of_act(sequence: ColumnElement[int]) -> ScalarSelect[int]:
    entries = schema.audit_entries.alias()
    query = select(entries.c.position).where(
        entries.c.kind == schema.admin_acts.name, entries.c.sequence == sequence
    )
    return query.scalar_subquery()


def _with_entries(table: Table) -> Select[Any]:
    entries, erasures = schema.audit_entries, schema.erasures
    record_id = table.c.record_id if "record_id" in table.c else table.c.id
    return (
        select(
            table,
            *(entries.c[name].label(f"entry_{name}") for name in Entry._fields),
            erasures.c.remains,
            _position_of_act(erasures.c.act).label("erased_at"),
        )
        .outerjoin(entries, _matches(table))
        .outerjoin(erasures, _is_tombstone(literal(table.name), record_id))
        .order_by(table.c.sequence)
        .execution_options(yield_per=_ROWS_AT_ONCE)
    )


def _record_problems(connection: Connection, table: Table) -> Iterator[Problem]:
    """Compares the rows of a table with their entries, and records with their digests."""
    rows = connection.execute(_with_entries(table))
    for row, hashed in _hashed_texts(connection, table, rows):
        kind, record_id = _name(table, row)
        position = row.entry_position
        if position is None:
            yield Problem(kind, record_id, "was added by something else: the audit log has no entry of it")
        elif what := _entry_difference(table, row):
            yield Problem(kind, record_id, f"was changed after it was stored: {what}", position)
        is_stored_again = row.erased_at is not None and position is not None and position > row.erased_at
        remains = None if is_stored_again else row.remains
        if table in _CLASSES and (what := _row_problem(table, row, hashed, remains)):
            yield Problem(kind, record_id, f"was changed after it was stored: {what}", position)


def _entry_difference(table: Table, row: Any) -> str:
    """Returns how a row differs from its entry; empty = not at all."""
    stored = next(entries_of(table, [row._mapping], row.entry_position))
    for name, value in stored._asdict().items():
        logged = getattr(row, f"entry_{name}")
        if value != logged:
            return f"its {name} is {value!r}, the audit log has {logged!r}"
    return ""


def _row_problems(connection: Connection, table: Table) -> Iterator[Problem]:
    query = select(table).order_by(table.c.sequence).execution_options(yield_per=_ROWS_AT_ONCE)
    for row, hashed in _hashed_texts(connection, table, connection.execute(query)):
        if what := _row_problem(table, row, hashed, None):
            yield Problem(table.name, row.id, f"was changed after it was stored: {what}")


def _hashed_texts(
    connection: Connection, table: Table, rows: Iterable[Any]
) -> Iterator[tuple[Any, Callable[[], list[str]]]]:
    """Yields rows of a table, with a function that returns what the row's digest covers."""
    if table is not schema.trajectories:
        yield from ((row, partial(_own_text, row)) for row in rows)
        return
    left = iter(rows)
    while page := list(islice(left, _ROWS_AT_ONCE)):
        blobs = load_blobs(connection, ((row.tenant, row.tokens) for row in page))
        yield from ((row, partial(_trajectory_texts, row, blobs[row.tenant])) for row in page)


def _own_text(row: Any) -> list[str]:
    return [row.fields]


def _trajectory_texts(row: Any, blobs: Mapping[bytes, bytes]) -> list[str]:
    rows = "[]" if row.tokens is None else rows_json(row.tokens, blobs)
    return [row.turns, rows, row.fields, f"{row.prompt_tokens} {row.written_tokens}"]


def _row_problem(table: Table, row: Any, hashed: Callable[[], list[str]], remains: str | None) -> str:
    """Returns how a record differs from its digest or its columns; ``remains`` is the digest of an erased one."""
    if remains == "":
        return "it is marked as erased, and its row is still there"
    cls = _CLASSES[table]
    try:
        if digest(*hashed()) != (remains or row.digest):
            return "its content does not match its digest"
        record = trajectory_of(row) if cls is Trajectory else from_fields(cls, row.fields)
    except RecordError as exc:
        return str(exc)
    if record.id != row.id:
        return f"its id in the record is {record.id!r}"
    for name, value in KINDS[cls].columns(record).items():
        if getattr(row, name) != value:
            return f"its column {name} is {getattr(row, name)!r}, its record says {value!r}"
    return ""


def _blob_problems(connection: Connection) -> Iterator[Problem]:
    query = select(schema.token_blobs).execution_options(yield_per=_ROWS_AT_ONCE)
    for row in connection.execute(query):
        if blob_digest(row.data) != row.digest:
            what = f"of tenant {row.tenant!r} was changed after it was stored"
            yield Problem(schema.token_blobs.name, row.digest.hex(), what)


def _missing_records(connection: Connection, table: Table) -> Iterator[Problem]:
    """Finds entries without their record, unless it was erased on purpose."""
    entries, erasures = schema.audit_entries, schema.erasures
    kinds = [states.name for states in schema.STATES] if table is schema.history else [table.name]
    query = (
        select(entries.c.kind, entries.c.record_id, entries.c.sequence, entries.c.position)
        .outerjoin(table, _matches(table))
        .outerjoin(erasures, _is_tombstone(entries.c.kind, entries.c.record_id))
        .where(entries.c.kind.in_(kinds), table.c.sequence.is_(None))
        .where(or_(erasures.c.record_id.is_(None), erasures.c.remains != ""))
        .order_by(entries.c.position)
    )
    for row in connection.execute(query):
        what = f"was deleted: the audit log has it with sequence {row.sequence}"
        yield Problem(row.kind, row.record_id, what, row.position)


def _state_problems(connection: Connection, table: Table, states: Table) -> Iterator[Problem]:
    """Compares the current states of a table with the last ones of their history in ``states``."""
    history = states.c
    query = select(history.record_id, history.fields).where(history.kind == table.name).order_by(history.sequence)
    last = {row[0]: row[1] for row in connection.execute(query)}
    current = {row[0]: row[1] for row in connection.execute(select(table.c.id, table.c.fields))}
    for record_id in last.keys() - current.keys():
        yield Problem(table.name, record_id, "was deleted: the history has it")
    for record_id, fields in current.items():
        if last.get(record_id) != fields:
            yield Problem(table.name, record_id, "was changed after it was stored: it differs from its last state")


def _owner_problems(connection: Connection, table: Table, owners: Table, reference: str) -> Iterator[Problem]:
    """Compares the inherited tenants with those of the owners."""
    erasures = schema.erasures
    query = (
        select(table.c.id, table.c.tenant, owners.c.tenant)
        .outerjoin(owners, table.c[reference] == owners.c.id)
        .outerjoin(erasures, _is_tombstone(literal(owners.name), table.c[reference]))
        .where(or_(owners.c.id.is_not(None), erasures.c.record_id.is_(None)))
    )
    for record_id, tenant, expected in connection.execute(query.order_by(table.c.sequence)):
        if expected is None:
            yield Problem(table.name, record_id, f"belongs to {owners.name} that were deleted")
        elif tenant != expected:
            what = f"its tenant is {tenant!r}, that of its {owners.name} {expected!r}"
            yield Problem(table.name, record_id, f"was changed after it was stored: {what}")


def _erasure_problems(connection: Connection) -> Iterator[Problem]:
    """Compares the tombstones with the acts that made them."""
    acts, erasures = schema.admin_acts, schema.erasures
    made = select(acts.c.sequence, acts.c.fields).where(acts.c.kind == ERASURES)
    expected = {row.sequence: json.loads(row.fields)["digest"] for row in connection.execute(made)}
    query = select(erasures).order_by(erasures.c.act, erasures.c.kind, erasures.c.record_id)
    for act, rows in groupby(connection.execute(query), key=lambda row: row.act):
        hashed = erasure_digest((row.kind, row.record_id, row.remains) for row in rows)
        if hashed != expected.pop(act, None):
            yield Problem(ERASURES, "", f"of the operator's act {act} were changed, added or deleted")
    for act in expected:
        yield Problem(ERASURES, "", f"of the operator's act {act} were deleted")


def _problems_before_the_log(connection: Connection) -> Iterator[Problem]:
    """Repeats what was wrong with a pool when it was upgraded to have a log."""
    acts = schema.admin_acts
    query = select(acts.c.record_id, acts.c.act).where(acts.c.kind == UPGRADE).order_by(acts.c.sequence)
    for kind, act in connection.execute(query):
        yield Problem(kind, "", f"were changed before the audit log began: {json.loads(act)['why']}")
