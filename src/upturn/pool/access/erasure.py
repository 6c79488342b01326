"""Erasing records on purpose: an operator's act, and a tombstone of each record, in the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select

from upturn.errors import StoreConflictError
from upturn.pool.access.acts import append_act
from upturn.pool.audit import ERASURES, Erased, erasure_digest
from upturn.pool.schema import erasures as table
from upturn.records import AdminAct


def record_erasure(connection: Connection, erased: Sequence[Erased], act: AdminAct) -> None:
    """Stores the act and the tombstones; the caller deletes or overwrites the rows in the same transaction.

    Raises StoreConflictError if the row of one of the records was deleted before. No records = nothing is stored.
    """
    if not erased:
        return
    ordered = sorted(erased)
    for start in range(0, len(ordered), 500):
        page = ordered[start : start + 500]
        ids = [item.record_id for item in page]
        known = select(table.c.kind, table.c.record_id).where(table.c.record_id.in_(ids), table.c.remains == "")
        taken = set(map(tuple, connection.execute(known)))
        for item in page:
            if (item.kind, item.record_id) in taken:
                raise StoreConflictError(f"{item.kind} {item.record_id!r} was erased before; leave it out")
    fields = f'{{"records":{len(ordered)},"digest":"{erasure_digest(ordered)}"}}'
    number = append_act(connection, act, kind=ERASURES, fields=fields)
    connection.execute(insert(table), [item._asdict() | {"act": number} for item in ordered])
