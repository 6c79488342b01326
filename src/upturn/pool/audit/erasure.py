"""Tombstones: what remains of records that are erased on purpose. Their entries stay in the audit log.

How to use it, in the transaction that deletes or overwrites the rows (``Pool.write`` or ``operator_transaction``)::

    connection.execute(delete(schema.trajectories).where(...))
    act = AdminAct(who, "pool forget", subject, when, tenant, why)
    record_erasure(connection, [Erased("trajectories", "t-1")], act)

What is derived from the records (``schema.points``) is deleted with them, without a tombstone. ``record_erasure``
is in ``upturn.pool.access``, because an erasure is an act of an operator. A row that is kept with less content,
such as one with a pseudonym, keeps its column ``digest`` and is named with ``remains``: the digest of the new
content, as ``row.digest`` computes it. ``upturn pool validate`` and ``upturn audit verify`` then accept both.
"""

from collections.abc import Iterable
from typing import NamedTuple

from upturn.pool import schema
from upturn.pool.row import digest

ERASURES = schema.erasures.name
"""Kind of the acts that erase."""


class Erased(NamedTuple):
    """A record that was erased."""

    kind: str
    """Name of its table."""
    record_id: str
    remains: str = ""
    """Digest of what is left of its content; empty = its row is deleted."""


def erasure_digest(erased: Iterable[tuple[str, str, str]]) -> str:
    """Returns the digest of tombstones that are sorted by kind and id."""
    return digest(*(text for parts in erased for text in parts))
