"""A move of a whole pool to another database, in batches. A move that was interrupted continues where it stopped.

Until all rows are there and compared, the target is marked as unfinished, and nobody can open it as a pool. The
source is not changed; nothing can write it in the meantime. Order of work: tables whose rows never change, after
the last number that is there; other tables whole; the comparison of all rows; the check of digests and chains; the
mark.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Table, delete, func, select

from upturn.errors import StoreError
from upturn.pool import schema
from upturn.pool.audit import ledger_problems
from upturn.pool.database import (
    Location,
    backend_of,
    begin_move,
    end_move,
    insert_new,
    location_of,
    writers_excluded,
)
from upturn.pool.store import Pool
from upturn.pool.transfer.copying import ROWS_AT_ONCE

_NUMBERED = (
    *(table for table in schema.LEDGER if table not in schema.STATES),
    schema.call_contents,
    schema.history,
    schema.admin_acts,
)
"""Tables whose rows never change and have rising numbers, so that their copy continues after the last one."""
_ADDED = (schema.token_blobs, schema.rollouts)
"""Other tables whose rows never change: equally many rows are the same rows. All further tables are copied anew."""


class MovedTable(NamedTuple):
    """A table that is equal in both places."""

    name: str
    rows: int
    digest: str
    """SHA-256 over all rows in the order of their keys."""


def move_pool(
    source: str | Location, target: str | Location, advance: Callable[[int], object] = lambda _: None
) -> list[MovedTable]:
    """Copies the pool to a new place and compares it there; returns its tables. ``advance`` gets numbers of rows.

    Raises StoreBusyError if another process writes the source, and StoreError for a source that is no pool, for a
    target that is anything but empty or the unfinished rest of a move of the same source, and for rows that differ.
    """
    source, target = location_of(source), location_of(target)
    if str(source) == str(target):
        raise StoreError(f"{str(source)!r} cannot be moved onto itself; name another place")
    if not backend_of(source).exists():
        raise StoreError(f"no pool at {str(source)!r}; name an existing one")
    with Pool.open(source) as pool, writers_excluded(source), _target_engine(source, target) as engine:
        with pool.engine.connect() as connection:
            for table in schema.metadata.sorted_tables:
                _copy(connection, engine, table, advance)
            moved = [_compared(connection, engine, table) for table in schema.metadata.sorted_tables]
        if problems := list(ledger_problems(engine)):
            raise StoreError(
                f"the copy in {str(target)!r} equals {str(source)!r}, which has records that were changed after "
                f"they were stored: {problems[0]}; `upturn pool validate` lists them"
            )
        with engine.begin() as connection:
            end_move(connection)
        return moved


@contextmanager
def _target_engine(source: Location, target: Location) -> Iterator[Engine]:
    backend = backend_of(target)
    begin_move(backend, str(source))
    engine = backend.writing_engine()
    try:
        yield engine
        backend.checkpoint(engine)
    finally:
        engine.dispose()


def _copy(source: Connection, engine: Engine, table: Table, advance: Callable[[int], object]) -> None:
    if table in _NUMBERED:
        with engine.connect() as target:
            last = target.execute(select(func.max(table.c.sequence))).scalar() or 0
        advance(_count(source, table, up_to=last))
        with closing(_pages(source, table, after=last)) as pages:
            for page in pages:
                with engine.begin() as target:
                    insert_new(table).run(target, page)
                advance(len(page))
        return
    with engine.begin() as target:
        if table in _ADDED and _count(target, table) == _count(source, table):
            advance(_count(source, table))
            return
        target.execute(delete(table))
        with closing(_pages(source, table)) as pages:
            for page in pages:
                insert_new(table).run(target, page)
                advance(len(page))


def _pages(
    source: Connection, table: Table, after: int | None = None
) -> Generator[Sequence[Mapping[str, Any]], None, None]:
    query = select(table) if after is None else select(table).where(table.c.sequence > after)
    query = query if after is None else query.order_by(table.c.sequence)
    with source.execute(query.execution_options(yield_per=ROWS_AT_ONCE)) as result:
        for page in result.mappings().partitions():
            yield [dict(row) for row in page]


def _count(connection: Connection, table: Table, up_to: int | None = None) -> int:
    query = select(func.count()).select_from(table)
    if up_to is not None:
        query = query.where(table.c.sequence <= up_to)
    return int(connection.execute(query).scalar_one())


def _compared(source: Connection, engine: Engine, table: Table) -> MovedTable:
    """Returns the table's rows and digest; raises StoreError if they differ."""
    with engine.connect() as target:
        rows, other = _digest(source, table), _digest(target, table)
    if rows != other:
        raise StoreError(
            f"the move is not complete: table {table.name} has {rows[0]} rows with digest {rows[1][:12]} in the "
            f"source, and {other[0]} with {other[1][:12]} in the target; empty the target and move again"
        )
    return MovedTable(table.name, *rows)


def _digest(connection: Connection, table: Table) -> tuple[int, str]:
    """Returns the number of rows and the hash over all values; both databases order keys by their bytes."""
    hasher, count = sha256(), 0
    query = select(table).order_by(*table.primary_key).execution_options(yield_per=ROWS_AT_ONCE)
    for row in connection.execute(query):
        hasher.update(repr(tuple(row)).encode("utf-8", "surrogatepass") + b"\n")
        count += 1
    return count, hasher.hexdigest()


def rows_of(location: str | Location) -> int:
    """Returns how many rows a pool has, for a progress bar."""
    with Pool.open(location, read_only=True) as pool, pool.engine.connect() as connection:
        return sum(_count(connection, table) for table in schema.metadata.sorted_tables)
