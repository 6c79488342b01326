"""Whether the audit log is what was appended: the hash of every entry, and the tree over them, computed anew.

An entry that was changed, moved or deleted is named. If its hash was changed with it, the stored node above names
its 256 entries; if that was changed too, the tree's stored peaks differ. Somebody who changes all of them is found
by a signed checkpoint only.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, select

from upturn.pool import schema
from upturn.pool.audit.entry import Entry
from upturn.pool.audit.log import entry_of_row, read_head
from upturn.pool.audit.merkle import HASH_BYTES, Frontier, TileNode
from upturn.pool.audit.problem import Problem

_LOG = schema.audit_entries.name
_ROWS_AT_ONCE = 1_000
_GAP = bytes(HASH_BYTES)
"""Stands for the hash of a missing entry."""


def log_problems(
    connection: Connection, tree: Frontier, roots: dict[int, bytes] | None = None
) -> Iterator[Problem]:
    """Yields what is wrong with the log itself; appends the hash of every entry, computed anew, to ``tree``.

    ``tree`` is empty at first. ``roots`` gets the root of the tree at each size that is a key.
    Raises StoreError if the log's head cannot be read.
    """
    table = schema.audit_entries
    query = select(table).order_by(table.c.position).execution_options(yield_per=_ROWS_AT_ONCE)
    roots = {} if roots is None else roots
    last_named = -1
    """Position of the last problem, which explains those of the nodes above it."""
    for row in connection.execute(query):
        entry = entry_of_row(row)
        if entry.position > tree.size:
            yield Problem(_LOG, _positions(tree.size, entry.position), "was deleted")
            last_named = entry.position
            while tree.size < entry.position:
                tree.append(_GAP)
        hashed = entry.hash()
        if hashed != row.hash:
            yield _changed(entry)
            last_named = entry.position
        for node in tree.append(hashed):
            first = node.number << node.level
            if last_named < first and _stored_hash(connection, node) != node.hash:
                yield Problem(_LOG, _positions(first, tree.size), "have changed since they were stored")
                last_named = entry.position
        if tree.size in roots:
            roots[tree.size] = tree.root()
    yield from _head_problems(connection, tree, is_explained=last_named >= 0)


def _head_problems(connection: Connection, tree: Frontier, *, is_explained: bool) -> Iterator[Problem]:
    stored = read_head(connection)
    if tree.size < stored.size:
        yield Problem(_LOG, _positions(tree.size, stored.size), "was deleted from the end of the log")
    elif tree.size > stored.size:
        yield Problem(_LOG, _positions(stored.size, tree.size), "was added by something else")
    elif not is_explained and tree.peaks != stored.peaks:
        whole = tree.size - tree.size % 256
        yield Problem(
            _LOG, _positions(whole, tree.size), "have changed since they were stored, or the log's head has"
        )


def _changed(entry: Entry) -> Problem:
    named = f"of {entry.kind} {entry.record_id!r} (sequence {entry.sequence})"
    return Problem(
        _LOG, str(entry.position), f"{named} was changed or moved: it does not have its hash", entry.position
    )


def _stored_hash(connection: Connection, node: TileNode) -> Any:
    table = schema.audit_nodes
    where = (table.c.level == node.level, table.c.position == node.number)
    return connection.execute(select(table.c.hash).where(*where)).scalar()


def _positions(start: int, end: int) -> str:
    return str(start) if end - start == 1 else f"{start} to {end - 1}"
