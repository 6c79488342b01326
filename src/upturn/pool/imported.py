"""What is stored about imported files: how far they were read, what could not be used, and places.

Not here: reading files (``ingestion``).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, update

from upturn.pool import schema


class Quarantined(NamedTuple):
    """A line of an imported file that was not stored."""

    line: int
    """Line of a JSONL file or item of a JSON array, from 1."""
    reason: str
    text: str | None = None
    """The line itself; None = too long to keep, or not text."""


class Place(NamedTuple):
    """Where one of several equal conversations stands in a file; see ``ingestion.place``."""

    content: str
    """Hash of the conversation."""
    number: int
    """Among equal conversations, from 0."""
    before: str | None
    after: str | None
    is_new: bool
    """False = it is stored, and the file has it again."""


class Imported(NamedTuple):
    """The import of a file up to a page of it, as it is stored with that page's records."""

    tenant: str
    source: str
    """Hash of the file's bytes and the import options."""
    path: str
    lines: int
    """So far."""
    accepted: int
    """So far."""
    quarantined: tuple[Quarantined, ...]
    """Of this page."""
    is_complete: bool = True
    """Whether the whole file is imported."""
    bad: int | None = None
    """Number of quarantined lines so far; None = those of this page."""
    state: str = ""
    """JSON of the importer, to continue with the next page."""
    places: tuple[Place, ...] = ()
    """Of this page."""


def write_import(connection: Connection, imported: Imported, now: float) -> None:
    """Stores the state of an import in place of its earlier one, with the quarantine and the places of its page."""
    key: dict[str, Any] = {"tenant": imported.tenant, "source": imported.source, "recorded_at": now}
    table = schema.imports
    connection.execute(delete(table).where(table.c.tenant == imported.tenant, table.c.source == imported.source))
    counts = {
        "path": imported.path,
        "lines": imported.lines,
        "accepted": imported.accepted,
        "quarantined": len(imported.quarantined) if imported.bad is None else imported.bad,
        "is_complete": int(imported.is_complete),
        "state": imported.state,
    }
    connection.execute(insert(table), key | counts)
    if imported.quarantined:
        connection.execute(insert(schema.quarantine), [key | bad._asdict() for bad in imported.quarantined])
    _write_places(connection, imported)


def _write_places(connection: Connection, imported: Imported) -> None:
    table = schema.places
    key = {"tenant": imported.tenant, "source": imported.source}
    rows: Sequence[dict[str, Any]] = [key | place._asdict() for place in imported.places if place.is_new]
    if rows:
        connection.execute(insert(table), [{name: row[name] for name in _COLUMNS} for row in rows])
    for place in imported.places:
        if not place.is_new:
            same = (
                table.c.tenant == imported.tenant,
                table.c.content == place.content,
                table.c.number == place.number,
            )
            seen = {"source": imported.source, "before": place.before, "after": place.after}
            connection.execute(update(table).where(*same), seen)


_COLUMNS = tuple(schema.places.c.keys())
