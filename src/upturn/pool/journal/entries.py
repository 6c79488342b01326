"""The journal's file: an SQLite database with one table, whose rows are groups of records as JSON.

One table without indexes is what makes it fast. A group is a list of pairs of a kind of record and its fields.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Table

from upturn.errors import RecordError, StoreError
from upturn.pool.database import sqlite_error
from upturn.pool.row import KINDS, PoolRecord, Values
from upturn.records import from_fields

Rows: TypeAlias = Mapping[Table, Sequence[Values]]

JOURNAL_ENDINGS = ("-calls", "-calls-wal", "-calls-shm")
"""After the name of the pool; the first is the journal, the others are SQLite's."""
_CLASSES: Mapping[str, type[Any]] = {kind.__name__: kind for kind in KINDS}
_NAMES = {stored.table: kind.__name__ for kind, stored in KINDS.items()}


def journal_of(pool: Path) -> Path:
    """Returns the path of a pool's journal."""
    return pool.with_name(pool.name + JOURNAL_ENDINGS[0])


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turns errors about the file into StoreErrors with its name."""
    try:
        yield
    except sqlite3.Error as exc:
        if (error := sqlite_error(str(path), exc)) is None:
            raise
        raise error from exc


def open_entries(path: Path) -> sqlite3.Connection:
    """Opens the file, or creates it; raises sqlite3.Error. Commits are on the disk when they return."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.execute("CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, content TEXT)")
    return connection


def entry_of(rows: Rows) -> str:
    """Returns the entry of these rows; not for trajectories, whose fields are in several columns."""
    parts = [f'["{_NAMES[table]}",{row["fields"]!s}]' for table, group in rows.items() for row in group]
    return f"[{','.join(parts)}]"


def read_journal(path: Path) -> list[Sequence[PoolRecord]]:
    """Returns the records of each entry, the oldest first; none if there is no file.

    Raises StoreError for a file or an entry that this version cannot read.
    """
    if not path.exists():
        return []
    with named_errors(path), closing(open_entries(path)) as connection:
        texts = [row[0] for row in connection.execute("SELECT content FROM entries ORDER BY number")]
    return [_records(path, text) for text in texts]


def _records(path: Path, text: str) -> Sequence[PoolRecord]:
    try:
        items: list[Any] = json.loads(text)
        return [from_fields(_CLASSES[kind], json.dumps(fields)) for kind, fields in items]
    except (ValueError, KeyError, RecordError) as exc:
        raise StoreError(
            f"{str(path)!r} holds acknowledged records that this version cannot read: {exc}; open the pool once "
            "with the version that wrote them"
        ) from exc
