"""Whether the stored records are those that were written: their digests, their columns, and a chain over all rows.

Every table of records that never change, the history of those that do, and the acts of operators have a chain: the
number of its rows and a hash over all of them in the order of arrival. Each row adds its id, its digest, its
sequence number and its time. So a deleted row is noticed like a changed one. Not covered: the tables of rollouts,
imports and quarantine, and an author of changes who computes the digests and chains anew, since neither is signed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Engine, Row, Table, func, select

from upturn.errors import RecordError
from upturn.pool import schema
from upturn.pool.audit.derived import point_problems
from upturn.pool.database import chain_head, insert_new, move_chain
from upturn.pool.row import KINDS, Values, digest, trajectory_of
from upturn.pool.tokens import blob_digest, load_blobs, rows_json
from upturn.records import Trajectory, from_fields

_CLASSES: Mapping[Table, type[Any]] = {kind.table: cls for cls, kind in KINDS.items()}

CHAINED = (*(table for table in schema.LEDGER if table not in schema.STATES), schema.history, schema.admin_acts)
"""Tables with a chain."""

_ROWS_AT_ONCE = 500


def extend_chain(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds new rows, in the order of their sequence numbers, to the table's chain."""
    kind: Values = {"kind": table.name}
    stored = chain_head().run(connection, [kind]).fetchone()
    count, head = stored or (0, "")
    for row in rows:
        head = digest(head, *_link(table, row))
    values: Values = {"row_count": count + len(rows), "head": head, **kind}
    (move_chain() if stored else insert_new(schema.chains)).run(connection, [values])


def ledger_problems(engine: Engine) -> Iterator[str]:
    """Yields what differs from what was written, as sentences that name the table and the record.

    All is read in one transaction, so a pool that is being written may be checked.
    """
    with engine.connect() as connection:
        for table in schema.LEDGER:
            yield from _row_problems(connection, table)
        yield from _blob_problems(connection)
        yield from point_problems(connection)
        for table in schema.STATES:
            yield from _state_problems(connection, table, schema.history)
        yield from _state_problems(connection, schema.api_keys, schema.admin_acts)
        for table, owners, reference in (
            (schema.trajectories, schema.tasks, "task_id"),
            (schema.evaluations, schema.trajectories, "trajectory_id"),
        ):
            yield from _owner_problems(connection, table, owners, reference)
        for table in CHAINED:
            yield from _chain_problems(connection, table)


def _stored_chain(connection: Connection, table: Table) -> tuple[int, str] | None:
    columns = (schema.chains.c.row_count, schema.chains.c.head)
    row = connection.execute(select(*columns).where(schema.chains.c.kind == table.name)).first()
    return None if row is None else (int(row[0]), str(row[1]))


def _link(table: Table, row: Mapping[Any, Any]) -> list[str]:
    """Returns what a row adds to the chain."""
    stamp = [str(row["sequence"]), repr(float(row["recorded_at"]))]
    if table is schema.history:
        return [row["kind"], row["record_id"], row["fields"], *stamp]
    if table is schema.admin_acts:
        return [row["kind"], row["record_id"], row["tenant"], row["act"], row["fields"], *stamp]
    if table is schema.trajectories:
        stamp.append(repr(float(row["seconds"])))  # the digest does not cover it
    return [row["id"], row["digest"], *stamp]


def _rows(connection: Connection, table: Table) -> Iterator[Row[Any]]:
    query = select(table).order_by(table.c.sequence).execution_options(yield_per=_ROWS_AT_ONCE)
    yield from connection.execute(query)


def _row_problems(connection: Connection, table: Table) -> Iterator[str]:
    for row, hashed in _hashed_texts(connection, table):
        if problem := _row_problem(table, row, hashed):
            yield f"{table.name} {row.id!r} was changed after it was stored: {problem}"


def _hashed_texts(connection: Connection, table: Table) -> Iterator[tuple[Any, Callable[[], list[str]]]]:
    """Yields all rows of a table, with a function that returns what the row's digest covers."""
    if table is not schema.trajectories:
        yield from ((row, partial(_own_text, row)) for row in _rows(connection, table))
        return
    rows = _rows(connection, table)
    while page := list(islice(rows, _ROWS_AT_ONCE)):
        blobs = load_blobs(connection, ((row.tenant, row.tokens) for row in page))
        yield from ((row, partial(_trajectory_texts, row, blobs[row.tenant])) for row in page)


def _own_text(row: Any) -> list[str]:
    return [row.fields]


def _trajectory_texts(row: Any, blobs: Mapping[bytes, bytes]) -> list[str]:
    rows = "[]" if row.tokens is None else rows_json(row.tokens, blobs)
    return [row.turns, rows, row.fields, f"{row.prompt_tokens} {row.written_tokens}"]


def _row_problem(table: Table, row: Any, hashed: Callable[[], list[str]]) -> str:
    cls = _CLASSES[table]
    try:
        if digest(*hashed()) != row.digest:
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


def _blob_problems(connection: Connection) -> Iterator[str]:
    query = select(schema.token_blobs).execution_options(yield_per=_ROWS_AT_ONCE)
    for row in connection.execute(query):
        if blob_digest(row.data) != row.digest:
            yield f"token_blobs {row.digest.hex()!r} of tenant {row.tenant!r} was changed after it was stored"


def _state_problems(connection: Connection, table: Table, states: Table) -> Iterator[str]:
    """Compares the current states of a table with the last ones of their history in ``states``."""
    history = states.c
    query = select(history.record_id, history.fields).where(history.kind == table.name).order_by(history.sequence)
    last = {row[0]: row[1] for row in connection.execute(query)}
    current = {row[0]: row[1] for row in connection.execute(select(table.c.id, table.c.fields))}
    for record_id in last.keys() - current.keys():
        yield f"{table.name} {record_id!r} was deleted: the history has it"
    for record_id, fields in current.items():
        if last.get(record_id) != fields:
            yield f"{table.name} {record_id!r} was changed after it was stored: it differs from its last state"


def _owner_problems(connection: Connection, table: Table, owners: Table, reference: str) -> Iterator[str]:
    """Compares the inherited tenants with those of the owners."""
    joined = select(table.c.id, table.c.tenant, owners.c.tenant).outerjoin(
        owners, table.c[reference] == owners.c.id
    )
    for record_id, tenant, expected in connection.execute(joined.order_by(table.c.sequence)):
        if expected is None:
            yield f"{table.name} {record_id!r} belongs to {owners.name} that were deleted"
        elif tenant != expected:
            yield (
                f"{table.name} {record_id!r} was changed after it was stored: its tenant is {tenant!r}, that of "
                f"its {owners.name} {expected!r}"
            )


def _chain_problems(connection: Connection, table: Table) -> Iterator[str]:
    stored, head = _stored_chain(connection, table) or (0, ""), ""
    count = connection.execute(select(func.count()).select_from(table)).scalar_one()
    if count != stored[0]:
        happened = "deleted" if count < stored[0] else "added by something else"
        yield f"{table.name} has {count} rows, {stored[0]} were written; rows were {happened}"
        return
    for row in _rows(connection, table):
        head = digest(head, *_link(table, dict(row._mapping)))
    if head != stored[1]:
        yield f"{table.name} has rows that were replaced, or whose digest, order or time was changed"
