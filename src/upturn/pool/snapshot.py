"""Snapshots: frozen, content-addressed selections, so that the data of a training run can be read again unchanged.

A snapshot's id is a hash of its criteria, its tenants and the sorted ids of its trajectories and their evaluations,
so that equal selections of equal records have equal ids. Evaluations that are stored later are not part of it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import select

from upturn.errors import StoreError, UnknownNameError
from upturn.pool import schema
from upturn.pool.access import check_sharing
from upturn.pool.reader import Experience, PoolReader, Selected
from upturn.pool.row import digest
from upturn.pool.selection import EVERYTHING, Selection, latest_evaluation
from upturn.pool.store import Pool
from upturn.records import Snapshot

_IDS_PER_QUERY = 500


def take_snapshot(
    pool: Pool, *, tenants: Sequence[str], selection: Selection = EVERYTHING, trainer: str = ""
) -> Snapshot:
    """Stores and returns a snapshot of the selection; limits apply to each tenant separately.

    ``trainer``: the tenant that it is for, whose own consent is not needed. Raises ValueError without tenants, and
    SharingError for several tenants that have not all opted in to training by others.
    """
    if not tenants:
        raise ValueError("a snapshot needs at least one tenant, got none")
    names = tuple(sorted(set(tenants)))
    if len(names) > 1:
        check_sharing(pool.engine, [name for name in names if name != trainer])
    selected = [row for name in names for row in pool.selected(selection, tenant=name)]
    return store_snapshot(pool, _pairs(selected), names, selection.criteria)


def take_snapshot_of(pool: Pool, trajectory_ids: Iterable[str], *, tenant: str, criteria: str) -> Snapshot:
    """Stores and returns a snapshot of these trajectories of the tenant.

    ``criteria`` is the JSON of how they were chosen, and part of the id. Raises StoreError for an id that the
    tenant does not have.
    """
    ids = set(trajectory_ids)
    selected = [row for row in pool.selected(tenant=tenant) if row.trajectory_id in ids]
    missing = sorted(ids - {row.trajectory_id for row in selected})
    if missing:
        raise StoreError(f"no trajectory {missing[0]!r} is stored for {tenant!r}; check its tenant")
    return store_snapshot(pool, _pairs(selected), (tenant,), criteria)


def _pairs(selected: Iterable[Selected]) -> Iterator[tuple[str, str | None]]:
    return ((row.trajectory_id, row.evaluation_id) for row in selected)


def store_snapshot(
    pool: Pool, pairs: Iterable[tuple[str, str | None]], tenants: tuple[str, ...], criteria: str
) -> Snapshot:
    """Stores and returns a snapshot of these (trajectory id, evaluation id); None = without an evaluation.

    ``criteria``: JSON; with ``bound``, evaluations after that sequence number are not part of it.
    """
    chosen = sorted((trajectory_id, evaluation_id or "") for trajectory_id, evaluation_id in pairs)
    snapshot = Snapshot(
        id=_manifest_digest(criteria, tenants, chosen),
        trajectory_ids=tuple(trajectory_id for trajectory_id, _ in chosen),
        criteria=criteria,
        tenants=tenants,
    )
    pool.append(snapshot)
    return snapshot


def _manifest_digest(criteria: str, tenants: Sequence[str], chosen: Sequence[tuple[str, str]]) -> str:
    """``chosen``: sorted ids of trajectories and their evaluations, empty = none."""
    return digest(criteria, json.dumps(tenants), json.dumps(chosen))


def manifest_digest(pool: PoolReader, snapshot: Snapshot) -> str:
    """Returns the digest of the snapshot's manifest as it is stored now; that of an unchanged one is its id."""
    until, ids = taken_at(pool, snapshot.id), snapshot.trajectory_ids
    table = schema.trajectories
    chosen: list[tuple[str, str]] = []
    with pool.engine.connect() as connection:
        latest = latest_evaluation(until)
        query = select(table.c.id, latest.c.id).outerjoin(latest, latest.c.trajectory_id == table.c.id)
        for start in range(0, len(ids), _IDS_PER_QUERY):
            page = connection.execute(query.where(table.c.id.in_(ids[start : start + _IDS_PER_QUERY])))
            chosen += [(row[0], row[1] or "") for row in page]
    return _manifest_digest(snapshot.criteria, snapshot.tenants, sorted(chosen))


def find_snapshot(pool: PoolReader, snapshot_id: str) -> Snapshot:
    """Returns the stored snapshot with this id; raises UnknownNameError with the known ids."""
    known = {snapshot.id: snapshot for snapshot in pool.snapshots()}
    if snapshot_id not in known:
        listed = ", ".join(known) or "none"
        raise UnknownNameError(f"no snapshot {snapshot_id!r} is stored; stored: {listed}; take one first")
    return known[snapshot_id]


def taken_at(pool: PoolReader, snapshot_id: str) -> int:
    """Returns the snapshot's sequence number; raises UnknownNameError as ``find_snapshot``."""
    find_snapshot(pool, snapshot_id)
    table = schema.snapshots
    with pool.engine.connect() as connection:
        number: int = connection.execute(select(table.c.sequence).where(table.c.id == snapshot_id)).scalar_one()
    return number


def trajectories_in(pool: PoolReader, snapshot_id: str, *, tenant: str) -> list[str]:
    """Returns the ids of the snapshot's trajectories of ``tenant``, in their order.

    Raises UnknownNameError for a snapshot that is not stored and for a tenant that it does not include.
    """
    snapshot = find_snapshot(pool, snapshot_id)
    if tenant not in snapshot.tenants:
        named = ", ".join(snapshot.tenants)
        raise UnknownNameError(f"snapshot {snapshot_id!r} does not include tenant {tenant!r}; its tenants: {named}")
    table = schema.trajectories
    query = select(table.c.id).where(table.c.tenant == tenant, table.c.sequence < taken_at(pool, snapshot_id))
    with pool.engine.connect() as connection:
        visible = set(connection.execute(query).scalars())
    return [trajectory_id for trajectory_id in snapshot.trajectory_ids if trajectory_id in visible]


def experiences_in(
    pool: PoolReader, snapshot_id: str, *, tenant: str, has_tokens: bool = True
) -> Iterator[Experience]:
    """Yields the snapshot's data points of ``tenant``, unchanged, in the order of their trajectory ids.

    Raises UnknownNameError for a snapshot that is not stored and for a tenant that it does not include.
    """
    ids = trajectories_in(pool, snapshot_id, tenant=tenant)
    yield from pool.experiences_of(ids, tenant=tenant, has_tokens=has_tokens, until=taken_at(pool, snapshot_id))
