"""Frozen, content-addressed selections: what a training run consumed can be read again as it was.

A snapshot's id is a hash over its criteria, its tenants and the sorted ids of the trajectories and of the
evaluations they had: the same selection of the same evidence has the same id, and a changed one cannot keep it.
Evaluations that are stored after the snapshot are not part of it.
"""

import json
from collections.abc import Iterator, Sequence

from sqlalchemy import select

from upturn.errors import UnknownNameError
from upturn.pool import schema
from upturn.pool.reader import Experience, PoolReader
from upturn.pool.row import digest
from upturn.pool.selection import EVERYTHING, Selection
from upturn.pool.store import Pool
from upturn.records import Snapshot


def take_snapshot(pool: Pool, *, tenants: Sequence[str], selection: Selection = EVERYTHING) -> Snapshot:
    """Freezes the selection over these tenants and stores it; limits count for each tenant alone.

    Raises ValueError when no tenant is named.
    """
    if not tenants:
        raise ValueError("a snapshot names its tenants, got none; give at least one")
    names = tuple(sorted(set(tenants)))
    chosen = sorted(
        (found.trajectory_id, found.evaluation_id or "")
        for name in names
        for found in pool.selected(selection, tenant=name)
    )
    snapshot = Snapshot(
        id=digest(selection.criteria, json.dumps(names), json.dumps(chosen)),
        trajectory_ids=tuple(trajectory_id for trajectory_id, _ in chosen),
        criteria=selection.criteria,
        tenants=names,
    )
    pool.add_snapshot(snapshot)
    return snapshot


def find_snapshot(pool: PoolReader, snapshot_id: str) -> Snapshot:
    """The stored snapshot with this id; raises UnknownNameError naming those that are stored."""
    known = {snapshot.id: snapshot for snapshot in pool.snapshots()}
    if snapshot_id not in known:
        listed = ", ".join(known) or "none"
        raise UnknownNameError(f"no snapshot {snapshot_id!r} is stored; stored: {listed}; take one first")
    return known[snapshot_id]


def experiences_in(
    pool: PoolReader, snapshot_id: str, *, tenant: str, has_tokens: bool = True
) -> Iterator[Experience]:
    """The snapshot's data points that belong to ``tenant``, as they were, in the order of their trajectory ids.

    Raises UnknownNameError for a snapshot that is not stored and for a tenant that it does not name.
    """
    snapshot = find_snapshot(pool, snapshot_id)
    if tenant not in snapshot.tenants:
        named = ", ".join(snapshot.tenants)
        raise UnknownNameError(f"snapshot {snapshot_id!r} holds nothing of tenant {tenant!r}; its tenants: {named}")
    with pool.engine.connect() as connection:
        table = schema.snapshots
        taken_at = connection.execute(select(table.c.sequence).where(table.c.id == snapshot_id)).scalar_one()
        mine = select(schema.trajectories.c.id).where(schema.trajectories.c.tenant == tenant)
        own = set(connection.execute(mine.where(schema.trajectories.c.sequence < taken_at)).scalars())
    ids = [trajectory_id for trajectory_id in snapshot.trajectory_ids if trajectory_id in own]
    yield from pool.experiences_of(ids, tenant=tenant, has_tokens=has_tokens, until=taken_at)
