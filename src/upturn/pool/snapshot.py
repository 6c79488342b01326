"""Frozen, content-addressed selections: what a training run consumed can be read again as it was.

A snapshot's id is a hash over its criteria, its tenants and the sorted ids of the trajectories and of the
evaluations they had: the same selection of the same evidence has the same id, and a changed one cannot keep it.
Evaluations that are stored after the snapshot are not part of it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import select

from upturn.errors import StoreError, UnknownNameError
from upturn.pool import schema
from upturn.pool.reader import Experience, PoolReader, Selected
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
    found = [each for name in names for each in pool.selected(selection, tenant=name)]
    return _kept(pool, found, names, selection.criteria)


def take_snapshot_of(pool: Pool, trajectory_ids: Iterable[str], *, tenant: str, criteria: str) -> Snapshot:
    """Freezes trajectories of the tenant's that no selection describes, and stores the snapshot.

    ``criteria``: what was made of them, as JSON; where it differs the id does. Raises StoreError for an id that the
    tenant does not have.
    """
    wanted = set(trajectory_ids)
    found = [each for each in pool.selected(tenant=tenant) if each.trajectory_id in wanted]
    missing = sorted(wanted - {each.trajectory_id for each in found})
    if missing:
        raise StoreError(f"no trajectory {missing[0]!r} is stored for {tenant!r}; look at its tenant")
    return _kept(pool, found, (tenant,), criteria)


def _kept(pool: Pool, found: Iterable[Selected], tenants: tuple[str, ...], criteria: str) -> Snapshot:
    chosen = sorted((each.trajectory_id, each.evaluation_id or "") for each in found)
    snapshot = Snapshot(
        id=digest(criteria, json.dumps(tenants), json.dumps(chosen)),
        trajectory_ids=tuple(trajectory_id for trajectory_id, _ in chosen),
        criteria=criteria,
        tenants=tenants,
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
