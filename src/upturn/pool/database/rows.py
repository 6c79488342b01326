"""Many rows at once: those with given keys, and new ones, with as few statements as the database needs."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, select

from upturn.errors import StoreConflictError
from upturn.pool.database.backend import backend_in, driver_of
from upturn.pool.database.statement import Statement, insert_new, translated


def rows_by_id(
    connection: Connection, table: Table, columns: tuple[str, ...], ids: Sequence[Any]
) -> dict[Any, tuple[Any, ...]]:
    """Returns these columns of the rows with these ids, by id; ids that are not stored are absent."""
    if not ids:
        return {}
    backend = backend_in(connection)
    query, _ = _columns_by_id(table, columns).compiled(backend)
    with translated(backend):
        rows = backend.driver.rows_by_id(driver_of(connection), query, ids)
    return {row[0]: tuple(row[1:]) for row in rows}


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts rows that are new.

    Raises StoreConflictError if the key of one is stored; the caller then undoes what was inserted.
    """
    backend = backend_in(connection)
    if backend.driver.can_copy and len(rows) > 1:
        with translated(backend):
            is_done = backend.driver.copy_rows(driver_of(connection), table, rows)
    else:
        is_done = insert_new(table).run(connection, rows).rowcount == len(rows)
    if not is_done:
        raise StoreConflictError(f"{table.name} has some of the rows")


@cache
def _columns_by_id(table: Table, columns: tuple[str, ...]) -> Statement:
    query = select(table.c.id, *(table.c[name] for name in columns))
    return Statement(lambda driver: query.where(driver.has_id(table)))
