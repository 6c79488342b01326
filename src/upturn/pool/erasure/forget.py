"""Erasing a subject from a tenant's records, and proving it.

Order: the rows that name the subject are found; in one transaction their texts get a mask, tokens that may hold the
subject are dropped (those of the rewritten records, of all trajectories of a rewritten task and of all calls of a
rewritten episode), blobs that nothing refers to any more are deleted, and the act is stored with a tombstone for
each record; the database is written anew; everything is searched again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, delete, select, update

from upturn.errors import ConfigError, StoreBusyError
from upturn.pool import schema
from upturn.pool.access import append_act, record_erasure
from upturn.pool.audit import Erased
from upturn.pool.database import Location, other_writers
from upturn.pool.erasure.rewriting import replacement_of, without_subject
from upturn.pool.erasure.scrub import files_with, scrub
from upturn.pool.erasure.search import LOOSE, RECORDS, Hit, search
from upturn.pool.erasure.subject import Subject
from upturn.pool.retrieval import forget_embeddings
from upturn.pool.row import KINDS, PoolRecord, digest, ready_row, trajectory_of
from upturn.pool.selection import ALL_TENANTS
from upturn.pool.store import Pool
from upturn.pool.tokens import references
from upturn.records import AdminAct, AgentVersion, CallContent, Snapshot, Task, from_fields

_CLASSES = {kind.table: cls for cls, kind in KINDS.items()}
_IDS_PER_QUERY = 500


class Forgotten(NamedTuple):
    """What names the subject, and what became of it."""

    records: dict[str, int]
    """Number of rows that name it, by table."""
    dropped_tokens: int
    """Number of trajectories and calls that lost their tokens; in a dry run the number that may have some."""
    deleted_blobs: int
    snapshots: tuple[str, ...]
    """Ids of those with a trajectory that was changed."""
    versions: tuple[str, ...]
    """Ids of the agent versions that were trained on such a snapshot or in such a run, and of those that came from
    them."""
    remaining: tuple[str, ...]
    """Rows and files that still name it: ids, and what belongs to the operator."""
    shared_files: tuple[str, ...] = ()
    """Files that name it because records of other tenants do, so that searching them proves nothing."""


class _Plan(NamedTuple):
    """What is to be changed."""

    hits: list[Hit]
    ids: dict[Table, set[str]]
    """Records to rewrite, by table."""
    tokens: set[str]
    """Trajectories that lose their tokens, also if their texts do not name the subject."""
    contents: set[str]
    """Calls whose contents lose their tokens."""


def forget(location: str | Location, subject: Subject, *, act: AdminAct, is_dry_run: bool = False) -> Forgotten:
    """Erases the subject from the records of the act's tenant; with ``is_dry_run`` only returns what names it.

    ``act`` also says who, when and why, and must not name the subject (raises ConfigError). No other process may
    have the pool open for writing (raises StoreBusyError).
    """
    if subject(act.why) or subject(act.who) or subject(act.subject):
        raise ConfigError(
            ["--who and --why are stored for ever and name the subject; describe it without its value"]
        )
    with Pool.open(location, read_only=is_dry_run) as pool:
        if not is_dry_run:
            pool.write(_check_alone)
        with pool.engine.connect() as connection:
            plan = _plan(connection, subject, act.tenant)
            snapshots = _snapshots(connection, act.tenant, plan.tokens)
            versions = _versions(connection, snapshots, plan.tokens)
        found = Counter(hit.table.name for hit in plan.hits)
        result = Forgotten(dict(sorted(found.items())), 0, 0, tuple(snapshots), tuple(versions), ())
        if is_dry_run:
            return result._replace(dropped_tokens=len(plan.tokens) + len(plan.contents))
        dropped, blobs = pool.write(lambda connection: _erase(connection, subject, plan, snapshots, act=act))
    scrub(location)
    files = tuple(files_with(location, subject.literal))
    with Pool.open(location, read_only=True) as pool, pool.engine.connect() as connection:
        rows = tuple(str(hit) for hit in search(connection, subject, tenant=act.tenant))
        is_shared = bool(files) and not rows and any(search(connection, subject, tenant=ALL_TENANTS))
    return result._replace(
        dropped_tokens=dropped,
        deleted_blobs=blobs,
        remaining=rows if is_shared else (*rows, *files),
        shared_files=files if is_shared else (),
    )


def _check_alone(connection: Connection) -> None:
    """Raises StoreBusyError if another session may write the pool."""
    if writers := other_writers(connection):
        raise StoreBusyError(
            f"the pool is being written by {', '.join(writers)}; stop the gateways and runs that use it, then "
            "erase again"
        )


def _plan(connection: Connection, subject: Subject, tenant: str) -> _Plan:
    hits = list(search(connection, subject, tenant=tenant))
    ids = {table: {str(hit.key[0]) for hit in hits if hit.table is table} for table in RECORDS}
    calls, decisions, table = schema.calls, schema.decisions, schema.trajectories
    episodes = set(_values(connection, calls.c.episode, calls.c.id, ids[calls] | ids[schema.call_contents]))
    contents = set(_values(connection, calls.c.id, calls.c.episode, episodes, calls.c.tenant == tenant))
    tasks = set(
        _values(connection, decisions.c.task_id, decisions.c.episode, episodes, decisions.c.tenant == tenant)
    )
    of_tasks = set(_values(connection, table.c.id, table.c.task_id, tasks | ids[schema.tasks]))
    return _Plan(hits, ids, of_tasks | ids[table], contents | ids[schema.call_contents])


def _erase(
    connection: Connection, subject: Subject, plan: _Plan, snapshots: Sequence[str], *, act: AdminAct
) -> tuple[int, int]:
    """Returns how many records lost tokens, and how many blobs were deleted."""
    dropped = 0
    erased: list[Erased] = []
    instructions: list[str] = []
    for table in RECORDS:
        ids = plan.ids[table]
        if table is schema.trajectories:
            ids = ids | plan.tokens
        elif table is schema.call_contents:
            ids = ids | plan.contents
        for row in _rows(connection, table, ids):
            if table is schema.tasks:
                instructions.append(from_fields(Task, row.fields).instruction)
            values, had_tokens = _new_values(table, row, subject)
            dropped += had_tokens
            if values is None:
                continue
            remains = str(values.pop("digest"))
            if table is schema.call_contents:  # the audit log has none of them
                values["digest"] = remains
            else:
                erased.append(Erased(table.name, row.id, remains))
            connection.execute(update(table).where(table.c.id == row.id).values(values))
    erased += [
        Erased("snapshots", row.id, digest(row.fields)) for row in _rows(connection, schema.snapshots, snapshots)
    ]
    _rewrite_loose(connection, subject, plan.hits)
    forget_embeddings(connection, instructions, tenant=act.tenant)
    if erased:
        record_erasure(connection, erased, act)
    elif plan.hits:
        append_act(connection, act, kind="", fields="")
    return dropped, _delete_blobs(connection, act.tenant)


def _new_values(table: Table, row: Row[Any], subject: Subject) -> tuple[dict[str, Any] | None, bool]:
    """Returns the columns of the row without the subject (None = nothing changes), and whether it had tokens."""
    record: PoolRecord
    if table is schema.trajectories:
        had_tokens = row.tokens is not None
        record = without_subject(trajectory_of(row), subject)
        is_changed = had_tokens or ready_row(record).values["turns"] != row.turns
    else:
        stored = from_fields(_CLASSES[table], row.fields)
        record, had_tokens = without_subject(stored, subject), False
        if isinstance(record, CallContent) and record.tokens:
            record, had_tokens = _without_tokens(record), True
        is_changed = record != stored
    values: dict[str, Any] = dict(ready_row(record).values)
    is_changed = is_changed or values["fields"] != row.fields
    values.pop("id")
    return (values if is_changed else None), had_tokens


def _without_tokens(content: CallContent) -> CallContent:
    return CallContent(content.id, content.tenant, content.messages, content.tools, content.answer)


def _rewrite_loose(connection: Connection, subject: Subject, hits: Iterable[Hit]) -> None:
    """Replaces the subject in rows that are no records, such as quarantined lines."""
    replacement = replacement_of(subject)
    for table, key in hits:
        if table not in LOOSE:
            continue
        where = and_(*(column == value for column, value in zip(table.primary_key, key, strict=True)))
        row = connection.execute(select(*(table.c[name] for name in LOOSE[table])).where(where)).one()
        values = {name: value and replacement.text(value) for name, value in row._mapping.items()}
        connection.execute(update(table).where(where).values(values))


def _delete_blobs(connection: Connection, tenant: str) -> int:
    """Deletes the tenant's blobs that no trajectory refers to; returns how many."""
    table, blobs = schema.trajectories, schema.token_blobs
    used: set[bytes] = set()
    query = select(table.c.tokens).where(table.c.tenant == tenant, table.c.tokens.is_not(None))
    for tokens in connection.execute(query.execution_options(yield_per=_IDS_PER_QUERY)).scalars():
        used.update(references(tokens))
    stored = connection.execute(select(blobs.c.digest).where(blobs.c.tenant == tenant)).scalars()
    unused = [key for key in map(bytes, stored) if key not in used]
    for page in _pages(unused):
        connection.execute(delete(blobs).where(blobs.c.tenant == tenant, blobs.c.digest.in_(page)))
    return len(unused)


def _snapshots(connection: Connection, tenant: str, trajectories: set[str]) -> list[str]:
    """Returns the ids of the snapshots with one of the trajectories."""
    records = (
        from_fields(Snapshot, fields)
        for fields in connection.execute(
            select(schema.snapshots.c.fields).order_by(schema.snapshots.c.sequence)
        ).scalars()
    )
    return [
        snapshot.id
        for snapshot in records
        if tenant in snapshot.tenants and not trajectories.isdisjoint(snapshot.trajectory_ids)
    ]


def _versions(connection: Connection, snapshots: Sequence[str], trajectories: set[str]) -> list[str]:
    """Returns the ids of the versions that were trained on them, and of their descendants, oldest first."""
    runs = set(_values(connection, schema.rollouts.c.run, schema.rollouts.c.trajectory_id, trajectories))
    table = schema.agent_versions
    stored = connection.execute(select(table.c.fields).order_by(table.c.sequence)).scalars()
    seen: dict[str, None] = {}
    for version in (from_fields(AgentVersion, fields) for fields in stored):
        if version.snapshot in snapshots or version.run in runs or version.parent in seen:
            seen[version.id] = None
    return list(seen)


def _rows(connection: Connection, table: Table, ids: Iterable[str]) -> Iterator[Row[Any]]:
    for page in _pages(sorted(ids)):
        yield from connection.execute(select(table).where(table.c.id.in_(page))).all()


def _values(
    connection: Connection,
    column: ColumnElement[str],
    among: ColumnElement[str],
    values: Iterable[str],
    *conditions: ColumnElement[bool],
) -> Iterator[str]:
    """Yields a column of the rows in which another one is among the values."""
    for page in _pages(sorted(values)):
        yield from connection.execute(select(column).where(among.in_(page), *conditions)).scalars()


def _pages(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), _IDS_PER_QUERY):
        yield items[start : start + _IDS_PER_QUERY]
