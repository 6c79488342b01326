"""What an operator does beside the process that has the pool open for writing."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from upturn.errors import StoreError
from upturn.pool.database.backend import backend_in, backend_of
from upturn.pool.database.location import Location, PoolUrl, location_of
from upturn.pool.database.revision import check_head


@contextmanager
def operator_transaction(location: str | Location) -> Iterator[Connection]:
    """A transaction next to the process that has the pool open for writing; durable when the block ends.

    Only for tables that no other code writes: the database serialises the transactions, but the writer numbers its
    records in memory. Raises StoreError for a location that is no pool of this version.
    """
    backend = backend_of(location_of(location))
    check = backend.reading_engine()
    try:
        check_head(check)
    finally:
        check.dispose()
    engine = backend.operator_engine()
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def writers_excluded(location: str | Location) -> Iterator[None]:
    """Nobody can write the pool until the block ends."""
    place = location_of(location)
    engine = backend_of(place).operator_engine()
    try:
        with engine.begin() as connection:
            if isinstance(place, PoolUrl):
                connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield
    finally:
        engine.dispose()


def other_writers(connection: Connection) -> list[str]:
    """Returns the other sessions that may write the pool, in words; none of a file, whose lock excludes them."""
    if connection.dialect.name != "postgresql":
        return []
    from upturn.pool.database.postgres import writing_sessions

    return writing_sessions(connection)


def stored_bytes(connection: Connection) -> int:
    """Returns the size of the database: a file with its free pages, or the tables of a server's pool."""
    if connection.dialect.name == "postgresql":
        query = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'"
        query += " AND relnamespace = current_schema()::regnamespace"
        return int(connection.exec_driver_sql(query).scalar() or 0)
    pages, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in ("page_count", "page_size")
    )
    return pages * size


def integrity_problems(engine: Engine) -> list[str]:
    """Returns the damage that the database's own check reports."""
    try:
        return backend_in(engine).integrity_problems(engine)
    except StoreError as exc:
        return [str(exc)]
