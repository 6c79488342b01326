"""Retention: deletion of the oldest trajectories, with their evaluations and tokens, by age and size.

Kept whatever the rules say: what a snapshot has, and rollouts of runs that made a version or still run, so that
everything that trained a version can be read again. Tasks, decisions, feedback and all entries of the audit log
stay; each deleted record leaves a tombstone. Contents of calls have a retention of their own (``pool.calls``).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, func, select

from upturn.config import RetentionRule
from upturn.pool import schema
from upturn.pool.access import record_erasure
from upturn.pool.audit import Erased
from upturn.pool.database import stored_bytes
from upturn.pool.store import Pool
from upturn.pool.tokens import references
from upturn.records import AdminAct, AgentVersion, Run, Snapshot, from_fields

_DAY_SECONDS = 86_400.0
_MEGABYTE = 1_000_000
_ROWS_AT_ONCE = 200
"""Trajectories deleted in one transaction, so that other writers do not wait long."""


class Outdated(NamedTuple):
    """A trajectory that a rule does not keep."""

    id: str
    tenant: str
    size: int
    """Length of its texts and packed tokens; shared prompts are not counted."""
    why: str


class Pruning(NamedTuple):
    """What the rules delete."""

    outdated: Sequence[Outdated]
    protected: int
    """Trajectories that the rules would delete, and that are kept because a version or a snapshot needs them."""


def plan_pruning(engine: Engine, rules: Sequence[RetentionRule], now: float) -> Pruning:
    """Returns what the rules delete at ``now`` (UTC, seconds since 1970), the oldest last.

    A tenant's own rule takes the place of that of all tenants."""
    by_tenant = {rule.tenant: rule for rule in rules}
    table = schema.trajectories.c
    size = func.length(table.turns) + func.length(table.fields) + func.coalesce(func.length(table.tokens), 0)
    query = select(table.id, table.tenant, table.recorded_at, size.label("size")).order_by(table.sequence.desc())
    outdated: list[Outdated] = []
    sums: dict[str, int] = {}
    protected = 0
    with engine.connect() as connection:
        needed = _needed(connection)
        for row in connection.execute(query.execution_options(yield_per=1_000)):
            rule = by_tenant.get(row.tenant) or by_tenant.get("")
            if rule is None:
                continue
            sums[row.tenant] = sums.get(row.tenant, 0) + row.size
            why = _reason(rule, now - row.recorded_at, sums[row.tenant])
            if why and row.id in needed:
                protected += 1
            elif why:
                sums[row.tenant] -= row.size
                outdated.append(Outdated(row.id, row.tenant, row.size, why))
    return Pruning(outdated, protected)


class Pruned(NamedTuple):
    """What a regular pruning did."""

    deleted: int
    """Trajectories."""
    protected: int
    """Beyond the bounds, and kept because a version or a snapshot needs them."""
    stored_bytes: int
    """Size of the database."""


def prune_due(pool: Pool, rules: Sequence[RetentionRule], *, who: str, now: float) -> Pruned:
    """Applies the rules, if anything can be beyond them; otherwise reads next to nothing."""
    with pool.engine.connect() as connection:
        size = stored_bytes(connection)
        is_due = _is_too_large(rules, size) or _is_too_old(connection, rules, now)
    if not is_due:
        return Pruned(0, 0, size)
    plan = plan_pruning(pool.engine, rules, now)
    return Pruned(prune(pool, plan.outdated, who=who, now=now), plan.protected, size)


def _is_too_large(rules: Sequence[RetentionRule], size: int) -> bool:
    """Whether a tenant may have more than its bound: not while the whole database is smaller."""
    return any(rule.megabytes is not None and size > rule.megabytes * _MEGABYTE for rule in rules)


def _is_too_old(connection: Connection, rules: Sequence[RetentionRule], now: float) -> bool:
    """Whether the oldest trajectory is older than the smallest bound."""
    days = [rule.days for rule in rules if rule.days is not None]
    table = schema.trajectories.c
    oldest = connection.execute(select(table.recorded_at).order_by(table.sequence).limit(1)).scalar()
    return bool(days) and oldest is not None and now - oldest > min(days) * _DAY_SECONDS


def _reason(rule: RetentionRule, age: float, size: int) -> str:
    if rule.days is not None and age > rule.days * _DAY_SECONDS:
        return f"older than {rule.days:g} days"
    if rule.megabytes is not None and size > rule.megabytes * _MEGABYTE:
        return f"beyond {rule.megabytes:g} MB"
    return ""


def _needed(connection: Connection) -> set[str]:
    """Returns the trajectories of snapshots, and of runs that made a version or still run."""
    needed: set[str] = set()
    for fields in connection.execute(select(schema.snapshots.c.fields)).scalars():
        needed.update(from_fields(Snapshot, fields).trajectory_ids)
    versions = connection.execute(select(schema.agent_versions.c.fields)).scalars()
    kept = {from_fields(AgentVersion, fields).run for fields in versions}
    runs = [from_fields(Run, fields) for fields in connection.execute(select(schema.runs.c.fields)).scalars()]
    kept |= {run.id for run in runs if run.state == "running"}
    rollouts = connection.execute(select(schema.rollouts.c.run, schema.rollouts.c.trajectory_id))
    needed.update(row.trajectory_id for row in rollouts if row.run in kept or row.run.partition("/")[0] in kept)
    return needed


def prune(pool: Pool, outdated: Sequence[Outdated], *, who: str, now: float) -> int:
    """Deletes these trajectories with their evaluations and tokens; returns how many they were.

    Each page is one transaction with its tombstones and the operator's act, so an interrupted one is complete as
    far as it came.
    """
    deleted = 0
    for (tenant, why), group in _groups(outdated):
        act = AdminAct(who, "pool prune", "trajectories", now, tenant, why)
        for start in range(0, len(group), _ROWS_AT_ONCE):
            deleted += pool.write(partial(_delete, ids=group[start : start + _ROWS_AT_ONCE], act=act))
        pool.write(partial(_delete_blobs, tenant=tenant))
    return deleted


def _groups(outdated: Sequence[Outdated]) -> Iterator[tuple[tuple[str, str], list[str]]]:
    groups: dict[tuple[str, str], list[str]] = {}
    for item in outdated:
        groups.setdefault((item.tenant, item.why), []).append(item.id)
    yield from groups.items()


def _delete(connection: Connection, ids: Sequence[str], act: AdminAct) -> int:
    table = schema.trajectories
    needed = _needed(connection)  # again: a snapshot may have been taken meanwhile
    found = connection.execute(select(table.c.id, table.c.sequence).where(table.c.id.in_(ids)))
    numbers = {row.id: row.sequence for row in found if row.id not in needed}
    stored = list(numbers)
    connection.execute(delete(schema.points).where(schema.points.c.trajectory.in_(list(numbers.values()))))
    of_them = schema.evaluations.c.trajectory_id.in_(stored)
    judged = list(connection.execute(select(schema.evaluations.c.id).where(of_them)).scalars())
    connection.execute(delete(schema.evaluations).where(of_them))
    connection.execute(delete(schema.rollouts).where(schema.rollouts.c.trajectory_id.in_(stored)))
    connection.execute(delete(table).where(table.c.id.in_(stored)))
    erased = [Erased("trajectories", one) for one in stored] + [Erased("evaluations", one) for one in judged]
    record_erasure(connection, erased, act)
    return len(stored)


def _delete_blobs(connection: Connection, tenant: str) -> None:
    """Deletes the tenant's pieces of tokens that no trajectory refers to, while nobody else writes."""
    rows, blobs = schema.trajectories.c, schema.token_blobs.c
    used: set[bytes] = set()
    query = select(rows.tokens).where(rows.tenant == tenant, rows.tokens.is_not(None))
    for data in connection.execute(query.execution_options(yield_per=1_000)).scalars():
        used.update(references(data))
    stored = connection.execute(select(blobs.digest).where(blobs.tenant == tenant)).scalars()
    unused = [digest for digest in stored if digest not in used]
    for start in range(0, len(unused), _ROWS_AT_ONCE):
        page = unused[start : start + _ROWS_AT_ONCE]
        connection.execute(delete(schema.token_blobs).where(blobs.tenant == tenant, blobs.digest.in_(page)))
