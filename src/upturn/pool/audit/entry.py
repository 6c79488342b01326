"""An entry of the audit log: which record was stored, when, and the digest of its content; never the content.

What is hashed is the entry as a JSON array in ASCII without spaces: ``[position, kind, record id, tenant, digest,
sequence, time]``. The position is part of it, so a moved entry does not have its hash any more.
"""

from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, NamedTuple

from sqlalchemy import Table

from upturn.pool import schema
from upturn.pool.audit.merkle import leaf_hash
from upturn.pool.row import digest

LOGGED = (*(table for table in schema.LEDGER if table not in schema.STATES), schema.history, schema.admin_acts)
"""Tables whose rows have an entry each."""


class Entry(NamedTuple):
    """What was stored."""

    position: int
    """Index of the leaf, from 0."""
    kind: str
    """Name of the record's table; of a state of a release, run or limit, that of ``history``'s column ``kind``."""
    record_id: str
    """Of an act: what was acted on."""
    tenant: str
    """Empty = it belongs to the operator."""
    digest: str
    """Of the record, as ``row_digest`` returns it."""
    sequence: int
    """The record's; acts of operators have a counter of their own."""
    recorded_at: float
    """UTC, seconds since 1970."""

    def leaf(self) -> bytes:
        """Returns the bytes that are hashed."""
        position, kind, record_id, tenant, hashed, sequence, recorded_at = self
        texts = f"{quoted(kind)},{quoted(record_id)},{quoted(tenant)},{quoted(hashed)}"
        return f"[{position},{texts},{sequence},{recorded_at!r}]".encode()  # as json.dumps, in a third of the time

    def hash(self) -> bytes:
        """Returns the hash of the leaf."""
        return leaf_hash(self.leaf())


def entries_of(table: Table, rows: Sequence[Mapping[Any, Any]], first: int) -> Iterator[Entry]:
    """Yields the entries of stored rows of a table of ``LOGGED``; the first one has position ``first``."""
    is_state = table is schema.history
    id_column = "record_id" if is_state or table is schema.admin_acts else "id"
    kind = str(table.name)
    for position, row in enumerate(rows, start=first):
        yield Entry(
            position,
            row["kind"] if is_state else kind,
            row[id_column],
            row.get("tenant") or "",
            row_digest(table, row),
            row["sequence"],
            float(row["recorded_at"]),
        )


def row_digest(table: Table, row: Mapping[Any, Any]) -> str:
    """Returns the digest of a stored row in its entry."""
    if table is schema.history:
        return digest(row["fields"])
    if table is schema.admin_acts:
        return digest(row["kind"], row["record_id"], row["tenant"], row["act"], row["fields"])
    if table is schema.trajectories:
        return digest(row["digest"], repr(float(row["seconds"])))  # the record's own digest does not cover them
    return str(row["digest"])
