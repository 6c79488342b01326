"""The audit log in the pool: appending to it, its head, and the hashes that proofs are made of.

Entries are appended in the transaction that stores their records, so an undone write leaves none. Stored are the
entries with the hashes of their leaves, every eighth level of inner nodes, and the peaks of the tree: appending
reads and writes one row besides the entries, and a proof reads at most 256 rows of each stored level.

Transactions of writers exclude each other (``pool.database``), so positions have no gaps.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, select

from upturn.errors import StoreConflictError, StoreError
from upturn.pool import schema
from upturn.pool.audit.entry import Entry, entries_of
from upturn.pool.audit.merkle import HASH_BYTES, TILE_LEVELS, Frontier, TileNode, TreeHead, node_hash, root_of
from upturn.pool.database import insert_new, insert_rows, log_head, move_log_head
from upturn.pool.row import Values

_HEAD: Values = {"id": 1}
_TILE = 1 << TILE_LEVELS
"""Hashes below a stored node."""


class StoredRows(NamedTuple):
    """Rows that were stored in this transaction, in the order of their sequence numbers."""

    table: Table
    rows: Sequence[Mapping[str, Any]]


def append_entries(connection: Connection, stored: Iterable[StoredRows]) -> None:
    """Appends an entry for each of the rows."""
    entries: list[dict[str, Any]] = []
    nodes: list[TileNode] = []
    frontier, is_new = _read_head(connection)
    for table, rows in stored:
        for entry in entries_of(table, rows, frontier.size):
            hashed = entry.hash()
            entries.append({**entry._asdict(), "hash": hashed})
            nodes += frontier.append(hashed)
    if not entries:
        return
    try:
        insert_rows(connection, schema.audit_entries, entries)
    except StoreConflictError as exc:
        raise StoreError(
            f"the audit log has entries after its end, {frontier.size - len(entries)}: something else than Upturn "
            "wrote the pool; `upturn pool validate` names what differs, restore a backup"
        ) from exc
    if nodes:
        rows_of_nodes = [{"level": node.level, "position": node.number, "hash": node.hash} for node in nodes]
        insert_new(schema.audit_nodes).run(connection, rows_of_nodes)
    head = {"size": frontier.size, "peaks": frontier.peaks, **_HEAD}
    (insert_new(schema.audit_head) if is_new else move_log_head()).run(connection, [head])


def read_head(connection: Connection) -> Frontier:
    """Returns the tree of all entries."""
    return _read_head(connection)[0]


def _read_head(connection: Connection) -> tuple[Frontier, bool]:
    """Returns the tree, and whether its row is missing; raises StoreError for a damaged one."""
    stored = log_head().run(connection, [_HEAD]).fetchone()
    if stored is None:
        return Frontier(), True
    size, peaks = stored
    if size < 0 or len(peaks) != size.bit_count() * HASH_BYTES:
        raise StoreError(f"the head of the audit log is damaged (size {size}); restore a backup of the pool")
    return Frontier(size, peaks), False


def tree_of(connection: Connection, size: int) -> TreeHead | None:
    """Returns the tree of the first ``size`` entries; None = the log has fewer."""
    head = read_head(connection)
    if size >= head.size:
        return head.head() if size == head.size else None
    return TreeHead(size, root_of(size, StoredNodes(connection)))


def find_entries(connection: Connection, record_id: str) -> list[Entry]:
    """Returns the entries of a record (several for states) in the order of storage; reads the whole log."""
    table = schema.audit_entries
    query = select(table).where(table.c.record_id == record_id).order_by(table.c.position)
    return [entry_of_row(row) for row in connection.execute(query)]


def entry_of_row(row: Any) -> Entry:
    """Returns the entry of a row of ``audit_entries``."""
    return Entry(*row[:7])


class StoredNodes:
    """Hashes of the nodes of the stored tree, for proofs; keeps the rows of one tile of each level that it read."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tiles: dict[tuple[int, int], list[bytes]] = {}

    def __call__(self, level: int, index: int) -> bytes:
        """Returns the hash of a node with all of its leaves."""
        stored_level = level - level % TILE_LEVELS
        height = level - stored_level
        first = index << height
        tile = self._tile(stored_level, first // _TILE)
        hashes = tile[first % _TILE : first % _TILE + (1 << height)]
        assert len(hashes) == 1 << height, "the stored tree has the node"
        while len(hashes) > 1:
            hashes = [node_hash(hashes[i], hashes[i + 1]) for i in range(0, len(hashes), 2)]
        return hashes[0]

    def _tile(self, level: int, number: int) -> list[bytes]:
        if (tile := self._tiles.get((level, number))) is None:
            table = schema.audit_nodes if level else schema.audit_entries
            query = select(table.c.hash).where(
                table.c.position.between(number * _TILE, (number + 1) * _TILE - 1),
                *([table.c.level == level] if level else []),
            )
            tile = list(self._connection.execute(query.order_by(table.c.position)).scalars())
            self._tiles[level, number] = tile
        return tile
