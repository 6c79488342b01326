"""Removing what a database still holds of erased rows in its files, and searching the files.

SQLite keeps deleted content in free pages and in its log until they are used again; ``VACUUM`` writes the file
anew. PostgreSQL keeps it until ``VACUUM FULL``. Not covered: copies, backups, snapshots of the disk, PostgreSQL's
archived log, and what a flash disk keeps.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import text

from upturn.errors import StoreError
from upturn.pool.database import POOL_ENDINGS, Location, backend_of, location_of
from upturn.pool.schema import metadata


def scrub(location: str | Location) -> None:
    """Writes the database anew; nobody may have it open. Raises StoreError if that fails."""
    location = location_of(location)
    if isinstance(location, Path):
        try:
            with closing(sqlite3.connect(location)) as connection:
                for statement in ("PRAGMA secure_delete=ON", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                    connection.execute(statement).fetchall()
        except sqlite3.Error as exc:
            raise StoreError(
                f"the records are rewritten, but {str(location)!r} still holds what was erased: {exc}; "
                f"close all programs that use it, then erase again"
            ) from exc
        return
    engine = backend_of(location).schema_engine()
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f"VACUUM FULL {', '.join(metadata.tables)}"))
    finally:
        engine.dispose()


def files_with(location: str | Location, literal: str) -> list[str]:
    """Returns the names of the pool's files that hold the text, plain or as in JSON; () for a database server."""
    location = location_of(location)
    if not isinstance(location, Path):
        return []
    escaped = json.dumps(literal)[1:-1]
    needles = {spelling.encode() for spelling in (literal, literal.lower(), escaped)}
    files = [location, *(location.with_name(location.name + ending) for ending in POOL_ENDINGS)]
    return [file.name for file in files if file.exists() and _holds(file, needles)]


def _holds(file: Path, needles: set[bytes]) -> bool:
    overlap, before = max(map(len, needles)), b""
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            window = before + block
            if any(needle in window or needle in window.lower() for needle in needles):
                return True
            before = window[-overlap:]
    return False
