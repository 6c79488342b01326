"""Tasks that clients submit, and their states. A task is stored before it is acknowledged, and runs once."""

import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, Engine, Select, insert, select, update

from upturn.errors import StoreConflictError
from upturn.pool.schema import submissions, tasks
from upturn.pool.selection import Scope, in_scope
from upturn.pool.store import Pool
from upturn.records import Task, from_fields

SubmissionState = Literal["queued", "running", "done", "failed", "cancelled"]


class Submission(NamedTuple):
    """A submitted task and its state."""

    task: Task
    key: str
    """Id of the API key that submitted it; empty = none."""
    state: SubmissionState
    reason: str
    """Why it failed or was cancelled, or a note on a task that waits or runs; empty = nothing."""


def submit_task(pool: Pool, task: Task, key: str, *, note: str = "") -> bool:
    """Stores the task as queued, with a note; returns False if the tenant has submitted the same task already.

    Raises StoreConflictError for an id that is stored with other content or for another tenant.
    """
    is_new = pool.append(task) > 0

    def enqueue(connection: Connection) -> bool:
        row = connection.execute(
            select(submissions.c.tenant, submissions.c.key).where(submissions.c.task_id == task.id)
        ).first()
        if row is not None:
            if tuple(row) != (task.tenant, key):
                raise StoreConflictError(f"task {task.id!r} is stored already; choose another id")
            return False
        if not is_new:
            raise StoreConflictError(f"task {task.id!r} is stored already; choose another id")
        values = {"task_id": task.id, "tenant": task.tenant, "key": key, "state": "queued", "reason": note}
        connection.execute(insert(submissions), values | {"updated_at": time.time()})
        return True

    return pool.write(enqueue)


def set_states(pool: Pool, task_ids: Sequence[str], state: SubmissionState, reason: str = "") -> None:
    """Changes the state of these tasks; one that begins to run keeps its note."""

    def change(connection: Connection) -> None:
        values: dict[str, str | float] = {"state": state, "updated_at": time.time()}
        if state != "running":
            values["reason"] = reason
        connection.execute(update(submissions).where(submissions.c.task_id.in_(task_ids)), values)

    pool.write(change)


def cancel_queued(pool: Pool, task_id: str, *, tenant: str, key: str) -> bool:
    """Cancels a task that is still queued; returns whether it was."""

    def cancel(connection: Connection) -> bool:
        submitted = (submissions.c.task_id == task_id, submissions.c.tenant == tenant, submissions.c.key == key)
        query = update(submissions).where(*submitted, submissions.c.state == "queued")
        values = {"state": "cancelled", "reason": "cancelled by the client", "updated_at": time.time()}
        return bool(connection.execute(query, values).rowcount)

    return pool.write(cancel)


def find_submission(engine: Engine, task_id: str, *, tenant: Scope, key: str) -> Submission | None:
    """Returns the submission of a task with an API key; None = there is none."""
    query = _query().where(
        submissions.c.task_id == task_id, submissions.c.key == key, *in_scope(submissions.c.tenant, tenant)
    )
    return next(iter(_read(engine, query)), None)


def submissions_in(
    engine: Engine,
    *,
    tenant: Scope,
    key: str | None = None,
    states: Sequence[SubmissionState] = (),
    limit: int = 1_000,
    is_latest_first: bool = False,
) -> list[Submission]:
    """Returns submissions in the order of their tasks, or in the reverse one.

    ``key``: None = of any API key. ``states``: () = in any.
    """
    order = tasks.c.sequence.desc() if is_latest_first else tasks.c.sequence
    query = _query().where(*in_scope(submissions.c.tenant, tenant)).order_by(order).limit(limit)
    if key is not None:
        query = query.where(submissions.c.key == key)
    if states:
        query = query.where(submissions.c.state.in_(states))
    return _read(engine, query)


def _query() -> Select[Any]:
    columns = (tasks.c.fields, submissions.c.key, submissions.c.state, submissions.c.reason)
    return select(*columns).join(tasks, tasks.c.id == submissions.c.task_id)


def _read(engine: Engine, query: Select[Any]) -> list[Submission]:
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    return [Submission(from_fields(Task, row[0]), row[1], row[2], row[3]) for row in rows]
