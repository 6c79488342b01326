"""Snapshots of routing policies, one row for each policy with its settings."""

from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, insert, select

from upturn.pool import schema
from upturn.pool.store import Pool


class RouterSnapshot(NamedTuple):
    """What a policy has learned."""

    state: str
    sequence: int
    """Number of the last record that it has read."""


def load_router(engine: Engine, key: str) -> RouterSnapshot | None:
    """Returns the snapshot with this key; None = there is none."""
    table = schema.router_states
    with engine.connect() as connection:
        row = connection.execute(select(table.c.state, table.c.sequence).where(table.c.id == key)).first()
    return None if row is None else RouterSnapshot(row[0], row[1])


def save_router(pool: Pool, key: str, snapshot: RouterSnapshot, *, now: float) -> None:
    """Stores the snapshot unless a later one is stored; ``now``: UTC seconds."""

    def save(connection: Connection) -> None:
        table = schema.router_states
        stored = connection.execute(select(table.c.sequence).where(table.c.id == key)).scalar()
        if stored is not None and stored >= snapshot.sequence:
            return
        connection.execute(delete(table).where(table.c.id == key))
        connection.execute(insert(table), {"id": key, **snapshot._asdict(), "recorded_at": now})

    pool.write(save)
