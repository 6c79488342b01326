"""SQL statements that are compiled once and run on the driver's connection.

Compiling and running a statement through SQLAlchemy takes about twenty times as long as SQLite takes for the row of
a model call. The statements are still built from the tables. They are SQLite's: another database gets its dialect
here.
"""

import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Executable, Table, bindparam, select, update
from sqlalchemy.dialects import sqlite

from upturn.errors import StoreError
from upturn.pool import schema
from upturn.pool.database import is_bug, unusable_pool
from upturn.pool.row import Values


class Statement(NamedTuple):
    """The text of a statement and its parameters by position."""

    text: str
    names: tuple[str, ...]

    def run(self, connection: Connection, rows: Sequence[Values]) -> Any:  # Any: the driver's cursor
        """Returns the cursor after running the statement for each of the rows; raises StoreError.

        One row may be read from a query; more rows are for changes only.
        """
        driver: Any = connection.connection.dbapi_connection
        values = [[row[name] for name in self.names] for row in rows]
        try:
            return driver.execute(self.text, values[0]) if len(rows) == 1 else driver.executemany(self.text, values)
        except sqlite3.IntegrityError as exc:
            raise StoreError(f"the database rejected the write, nothing of it is stored: {exc}") from exc
        except sqlite3.DatabaseError as exc:
            if is_bug(exc):
                raise
            raise unusable_pool(connection.engine.url.database or "", exc) from exc


@cache
def insert_new(table: Table) -> Statement:
    """Inserts rows; one whose id is stored already changes nothing. The cursor's ``rowcount`` is of new rows."""
    return _compiled(sqlite.insert(table).on_conflict_do_nothing(index_elements=list(table.primary_key)))


@cache
def chain_head() -> Statement:
    """Reads ``row_count`` and ``head`` of the chain ``kind``."""
    columns = (schema.chains.c.row_count, schema.chains.c.head)
    return _compiled(select(*columns).where(schema.chains.c.kind == bindparam("kind")))


@cache
def move_chain() -> Statement:
    """Sets ``row_count`` and ``head`` of the chain ``kind``."""
    new = {"row_count": bindparam("row_count"), "head": bindparam("head")}
    return _compiled(update(schema.chains).where(schema.chains.c.kind == bindparam("kind")).values(new))


def _compiled(clause: Executable) -> Statement:
    compiled: Any = clause.compile(dialect=sqlite.dialect())  # type: ignore[attr-defined]
    return Statement(str(compiled), tuple(compiled.positiontup))
