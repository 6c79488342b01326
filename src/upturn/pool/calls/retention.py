"""Deletion of what was said in calls, after the retention time. Calls, decisions and trajectories stay."""

from sqlalchemy import Connection, Delete, delete, select

from upturn.pool.schema import call_contents
from upturn.pool.store import Pool

_ROWS_AT_ONCE = 500
"""Rows in one transaction, so that calls do not wait long for their storage."""


def delete_contents(pool: Pool, before: float) -> int:
    """Deletes the contents recorded before this time (UTC, seconds since 1970); returns how many they were."""

    def delete_page(connection: Connection) -> int:
        return int(connection.execute(_page(before)).rowcount)

    deleted = 0
    while page := pool.write(delete_page):
        deleted += page
    return deleted


def _page(before: float) -> Delete:
    oldest = select(call_contents.c.id).where(call_contents.c.recorded_at < before).limit(_ROWS_AT_ONCE)
    return delete(call_contents).where(call_contents.c.id.in_(oldest))
