"""The audit log, a Merkle tree over all stored records, instead of a chain for each table; and tombstones.

The entries of the stored rows are appended in the order of their sequence numbers, then those of operators' acts.
The chains are checked first: what they find is stored as an act, which ``pool validate`` goes on to report.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from heapq import merge
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_RECORDS = (
    "tasks", "decisions", "calls", "trajectories", "evaluations", "feedback", "agent_versions", "snapshots"
)  # fmt: skip
_TENANTS = ("tasks", "decisions", "calls", "trajectories", "evaluations", "feedback")
_OTHERS = {
    "history": ("kind", "record_id", "fields"),
    "admin_acts": ("kind", "record_id", "tenant", "act", "fields"),
}
_PAGE = 1_000

_ENTRIES = sa.table(
    "audit_entries",
    *(sa.column(name) for name in ("position", "kind", "record_id", "tenant", "digest", "sequence", "recorded_at")),
    sa.column("hash", sa.LargeBinary()),
)
_NODES = sa.table("audit_nodes", sa.column("level"), sa.column("position"), sa.column("hash", sa.LargeBinary()))
_CHAINS = sa.table("chains", sa.column("kind"), sa.column("row_count"), sa.column("head"))


def upgrade() -> None:
    """Creates the log with the entries of all rows; drops the chains."""
    op.create_table(
        "audit_entries",
        sa.Column("position", sa.BigInteger(), primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("kind", "record_id", "tenant", "digest")),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.Float(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
    )
    op.create_index("ix_audit_entries_sequence", "audit_entries", ["sequence"])
    op.create_table(
        "audit_nodes",
        sa.Column("level", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
    )
    head = op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("peaks", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "erasures",
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("record_id", sa.Text(), primary_key=True),
        sa.Column("act", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("remains", sa.Text(), nullable=False),
    )
    op.create_index("ix_erasures_act", "erasures", ["act"])
    connection = op.get_bind()
    _store_problems(connection)
    tree = _Tree(connection)
    streams = [_entries(connection, table) for table in (*_RECORDS, "history")]
    for entry in merge(*streams, key=lambda values: int(values[4])):
        tree.append(entry)
    for entry in _entries(connection, "admin_acts"):
        tree.append(entry)
    tree.write()
    if tree.size:
        connection.execute(sa.insert(head), {"id": 1, "size": tree.size, "peaks": b"".join(tree.peaks)})
    op.drop_table("chains")


def downgrade() -> None:
    """Creates the chains of the stored rows; drops the log."""
    chains = op.create_table(
        "chains",
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
    )
    connection = op.get_bind()
    for table in (*_RECORDS, *_OTHERS):
        count, chain = _chain(connection, table)
        if count:
            connection.execute(sa.insert(chains), {"kind": table, "row_count": count, "head": chain})
    for table in ("erasures", "audit_head", "audit_nodes", "audit_entries"):
        op.drop_table(table)


class _Tree:
    """The log while it is built: RFC 9162, section 2.1.1."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.size = 0
        self.peaks: list[bytes] = []
        self._entries: list[dict[str, Any]] = []
        self._nodes: list[dict[str, Any]] = []

    def append(self, values: tuple[str, str, str, str, int, float]) -> None:
        leaf = json.dumps([self.size, *values], separators=(",", ":")).encode()
        node, level, index = hashlib.sha256(b"\x00" + leaf).digest(), 0, self.size
        names = ("kind", "record_id", "tenant", "digest", "sequence", "recorded_at")
        self._entries.append({"position": self.size, **dict(zip(names, values, strict=True)), "hash": node})
        while index & 1:
            node = hashlib.sha256(b"\x01" + self.peaks.pop() + node).digest()
            level, index = level + 1, index >> 1
            if level % 8 == 0:
                self._nodes.append({"level": level, "position": index, "hash": node})
        self.peaks.append(node)
        self.size += 1
        if len(self._entries) == _PAGE:
            self.write()

    def write(self) -> None:
        for table, rows in ((_ENTRIES, self._entries), (_NODES, self._nodes)):
            if rows:
                self._connection.execute(sa.insert(table), rows)
                rows.clear()


def _rows(connection: sa.Connection, table: str) -> Iterator[Mapping[str, Any]]:
    names = _OTHERS.get(table) or ("id", "digest", *(["tenant"] if table in _TENANTS else []))
    seconds = ["seconds"] if table == "trajectories" else []
    source = sa.table(table, *(sa.column(name) for name in (*names, "sequence", "recorded_at", *seconds)))
    for row in connection.execute(sa.select(source).order_by(source.c.sequence)):
        yield dict(row._mapping)


def _entries(connection: sa.Connection, table: str) -> Iterator[tuple[str, str, str, str, int, float]]:
    """Yields kind, id, tenant, digest, sequence and time of the rows of a table."""
    for row in _rows(connection, table):
        stamp = (int(row["sequence"]), float(row["recorded_at"]))
        if table == "history":
            yield row["kind"], row["record_id"], "", _digest(row["fields"]), *stamp
        elif table == "admin_acts":
            hashed = _digest(*(row[name] for name in _OTHERS[table]))
            yield table, row["record_id"], row["tenant"], hashed, *stamp
        else:
            hashed = row["digest"]
            if table == "trajectories":
                hashed = _digest(hashed, repr(float(row["seconds"])))
            yield table, row["id"], row.get("tenant", ""), hashed, *stamp


def _chain(connection: sa.Connection, table: str) -> tuple[int, str]:
    """Returns number and chain of the rows of a table, as revision 0003 does."""
    count, chain = 0, ""
    for row in _rows(connection, table):
        names = _OTHERS.get(table) or ("id", "digest")
        times = [repr(float(row[name])) for name in ("recorded_at", "seconds") if name in row]
        count, chain = count + 1, _digest(chain, *(row[name] for name in names), str(row["sequence"]), *times)
    return count, chain


def _store_problems(connection: sa.Connection) -> None:
    """Stores an act for each table whose rows differ from its chain."""
    stored = {row.kind: (row.row_count, row.head) for row in connection.execute(sa.select(_CHAINS))}
    columns = (*_OTHERS["admin_acts"], "sequence", "recorded_at")
    acts = sa.table("admin_acts", *(sa.column(name) for name in columns))
    last = connection.execute(sa.select(sa.func.max(acts.c.sequence))).scalar() or 0
    problems: list[tuple[str, str]] = []
    for table in (*_RECORDS, *_OTHERS):
        count, chain = _chain(connection, table)
        expected = stored.get(table, (0, ""))
        if (count, chain) != expected:
            why = f"{count} rows, {expected[0]} were written" if count != expected[0] else "its chain differs"
            problems.append((table, why))
    for number, (table, why) in enumerate(problems, start=last + 1):
        now = time.time()
        act = {"who": "upgrade", "what": "audit begin", "subject": table, "when": now, "tenant": "", "why": why}
        row = {"kind": "chains", "record_id": table, "tenant": "", "act": json.dumps(act), "fields": ""}
        connection.execute(sa.insert(acts), row | {"sequence": number, "recorded_at": now})


def _digest(*texts: str) -> str:
    hasher = hashlib.sha256()
    for text in texts:
        encoded = text.encode(errors="surrogatepass")
        hasher.update(len(encoded).to_bytes(8, "big") + encoded)
    return hasher.hexdigest()
