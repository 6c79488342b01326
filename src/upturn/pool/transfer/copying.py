"""A copy of a pool in a new file, also while other processes write the pool."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Table, insert, select

from upturn.errors import StoreError
from upturn.pool.database import Location, PoolUrl, backend_of, bring_to_head, location_of
from upturn.pool.schema import metadata
from upturn.pool.store import Pool

ROWS_AT_ONCE = 500
"""Rows read and written at once: a few MB with tokens."""


def copy_pool(location: str | Location, target: Path) -> None:
    """Copies a pool into a new file; the copy has what was stored when it began.

    Raises StoreError for a place that is no pool of this version, and where the target exists or cannot be written.
    """
    location = location_of(location)
    if target.exists():
        raise StoreError(f"{str(target)!r} exists; name a new file for the copy")
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with Pool.open(location, read_only=True) as pool:
            if isinstance(location, PoolUrl):
                _copy_rows(pool, part)
            else:
                _copy_file(location, part)
        part.replace(target)
    except (OSError, sqlite3.Error) as exc:
        raise StoreError(f"the pool {str(location)!r} cannot be copied to {str(target)!r}: {exc}") from exc
    finally:
        for ending in ("", "-wal", "-shm"):
            part.with_name(part.name + ending).unlink(missing_ok=True)


def _copy_file(path: Path, part: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(part)) as copy:
        source.backup(copy)


def _copy_rows(pool: Pool, part: Path) -> None:
    """Copies all rows, which are read in one transaction."""
    backend = backend_of(part)
    bring_to_head(backend)
    engine = backend.writing_engine()
    try:
        with pool.engine.connect() as source, engine.begin() as target:
            for table in metadata.sorted_tables:
                copy_table(source, target, table)
        backend.checkpoint(engine)
    finally:
        engine.dispose()


def copy_table(source: Connection, target: Connection, table: Table) -> None:
    """Copies all rows of a table into an empty one."""
    query = select(table).execution_options(yield_per=ROWS_AT_ONCE)
    for page in source.execute(query).mappings().partitions():
        target.execute(insert(table), [dict(row) for row in page])
