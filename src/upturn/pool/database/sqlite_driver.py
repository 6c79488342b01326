"""The driver of SQLite."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table, bindparam
from sqlalchemy.dialects import sqlite

from upturn.errors import StoreError
from upturn.pool.database.driver import unusable_pool

_ADVICE = {
    "SQLITE_FULL": "free some space on its disk and try again; acknowledged records are safe",
    "SQLITE_IOERR": "check that its disk works and has space, then try again; acknowledged records are safe",
    "SQLITE_CORRUPT": "restore a copy of it, or choose another path",
    "SQLITE_CANTOPEN": "make it and its folder readable and writable, or choose another path",
    "SQLITE_READONLY": "make it and its folder writable, or copy both to a writable folder",
}
"""By the prefix of SQLite's error name; for other errors: choose another path."""


class SqliteDriver:
    """Python's own."""

    dialect = sqlite.dialect()

    def insert(self, table: Table) -> Any:
        """Returns an INSERT that ignores rows whose primary key is stored."""
        return sqlite.insert(table).on_conflict_do_nothing(index_elements=list(table.primary_key))

    def execute(self, driver: Any, statement: str, rows: Sequence[Any]) -> Any:
        """Returns the cursor after running the statement for all rows."""
        return driver.execute(statement, rows[0]) if len(rows) == 1 else driver.executemany(statement, rows)

    def has_id(self, table: Table) -> Any:
        """Returns the condition for one id: a query in the same process takes microseconds."""
        return table.c.id == bindparam("id")

    def rows_by_id(self, driver: Any, query: str, ids: Sequence[Any]) -> Sequence[Any]:
        """Returns the rows with these ids."""
        found = (driver.execute(query, (record_id,)).fetchone() for record_id in ids)
        return [row for row in found if row is not None]

    can_copy = False

    def copy_rows(self, driver: Any, table: Table, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Is not called."""
        raise NotImplementedError

    def can_undo(self, driver: Any) -> bool:
        """Returns False if SQLite aborted the transaction."""
        return bool(driver.in_transaction)

    def is_lost(self, driver: Any) -> bool:  # noqa: ARG002  a file has no connection to lose
        """Returns False."""
        return False

    def is_refusal(self, error: BaseException) -> bool:
        """Returns True for a broken constraint."""
        return isinstance(error, sqlite3.IntegrityError)

    def is_bug(self, error: BaseException) -> bool:
        """Returns False for errors about the file; the driver's other errors are bugs of ours."""
        return type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError)

    def advice(self, error: BaseException) -> str:
        """Returns what to do about an error of the file."""
        name = getattr(error, "sqlite_errorname", "")
        return next((text for start, text in _ADVICE.items() if name.startswith(start)), "choose another path")


def sqlite_error(name: str, error: sqlite3.Error) -> StoreError | None:
    """Returns the error for a file of this name; None = it is a bug of ours, and not about the file."""
    driver = SqliteDriver()
    return None if driver.is_bug(error) else unusable_pool(name, error, driver.advice(error))
