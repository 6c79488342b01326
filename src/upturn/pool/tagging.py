"""Reading the tags of a tenant's tasks, and changing them by appended records (``tags``)."""

from collections.abc import Iterable, Sequence

from sqlalchemy import select, union

from upturn.errors import ConfigError, UnknownNameError
from upturn.pool.reader import PoolReader
from upturn.pool.schema import decisions, feedback, tasks, trajectories
from upturn.pool.selection import Scope, in_scope
from upturn.pool.store import Pool
from upturn.pool.tags import TAG_METRIC, TAG_RULE, TagChange, is_tag, tag_record, tags_until

_IDS_PER_QUERY = 500


def tags_of(pool: PoolReader, task_ids: Sequence[str], *, tenant: Scope) -> dict[str, list[str]]:
    """Returns the tags of each of the tenant's tasks that has some, in alphabetical order."""
    found: dict[str, list[str]] = {}
    query = tags_until().where(*in_scope(tasks.c.tenant, tenant)).order_by(tasks.c.id, feedback.c.metric)
    with pool.engine.connect() as connection:
        for start in range(0, len(task_ids), _IDS_PER_QUERY):
            page = task_ids[start : start + _IDS_PER_QUERY]
            for row in connection.execute(query.where(feedback.c.subject_id.in_(page))):
                found.setdefault(row.task_id, []).append(row.metric.removeprefix(TAG_METRIC))
    return found


def tasks_of(pool: PoolReader, record_ids: Iterable[str], *, tenant: str) -> list[str]:
    """Returns the ids of the tasks that these ids are of: of a task, or of a trajectory or decision at it.

    Raises UnknownNameError for an id that the tenant does not have.
    """
    found: dict[str, None] = {}
    with pool.engine.connect() as connection:
        for record_id in record_ids:
            queries = (
                select(tasks.c.id).where(tasks.c.id == record_id, tasks.c.tenant == tenant),
                *(
                    select(table.c.task_id).where(table.c.id == record_id, table.c.tenant == tenant)
                    for table in (trajectories, decisions)
                ),
            )
            task_ids = connection.execute(union(*queries)).scalars().all()
            stored = connection.execute(select(tasks.c.id).where(tasks.c.id.in_(task_ids))).scalars().all()
            if not stored:
                raise UnknownNameError(
                    f"tenant {tenant!r} has no task, trajectory or decision with a stored task {record_id!r}; "
                    "`upturn pool export` has their ids"
                )
            found |= dict.fromkeys(stored)
    return list(found)


def change_tags(
    pool: Pool,
    task_ids: Sequence[str],
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    tenant: str,
    comment: str = "",
) -> list[TagChange]:
    """Adds and removes tags of the tenant's tasks; returns what is changed by that, once it is durable.

    Raises ConfigError for names that are no tags, or that are both added and removed, and UnknownNameError for a
    task that the tenant does not have.
    """
    problems = [f"a tag has {TAG_RULE}, got {tag!r:.100}" for tag in (*add, *remove) if not is_tag(tag)]
    problems += [f"tag {tag!r} is both added and removed; choose one" for tag in add if tag in remove]
    if problems:
        raise ConfigError(problems)
    known = tasks_of(pool, task_ids, tenant=tenant)
    now = tags_of(pool, known, tenant=tenant)
    changes = [
        TagChange(task_id, tag, is_set)
        for task_id in known
        for tags, is_set in ((add, True), (remove, False))
        for tag in dict.fromkeys(tags)
        if (tag in now.get(task_id, ())) != is_set
    ]
    if changes:
        pool.append(*(tag_record(change, tenant=tenant, comment=comment) for change in changes))
    return changes
