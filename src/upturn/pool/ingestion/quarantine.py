"""Quarantined lines of imported files: listed, read, and dropped once they are repaired or given up."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, select

from upturn.errors import StoreError
from upturn.pool import schema
from upturn.pool.store import Pool

_ID_LENGTH = 12
"""Hexadecimal digits of the import in the id of a line."""
_ROWS = 500


class QuarantinedLine(NamedTuple):
    """A line of an imported file that was not stored."""

    id: str
    """Of the import and the line, ``import:line``."""
    path: str
    line: int
    reason: str
    text: str | None
    """None = too long to keep, or not kept by the version that imported it."""


def quarantined_lines(pool: Pool, *, tenant: str, wanted: str = "") -> Iterator[QuarantinedLine]:
    """Yields the tenant's lines by import and number.

    ``wanted``: id of a line or of an import; empty = all.
    """
    bad, imports = schema.quarantine, schema.imports
    joined = bad.join(imports, (bad.c.tenant == imports.c.tenant) & (bad.c.source == imports.c.source))
    query = select(bad, imports.c.path).select_from(joined).where(*_conditions(tenant, wanted))
    query = query.order_by(imports.c.recorded_at, bad.c.source, bad.c.line)
    with pool.engine.connect() as connection:
        for row in connection.execution_options(yield_per=_ROWS).execute(query):
            yield QuarantinedLine(f"{row.source[:_ID_LENGTH]}:{row.line}", row.path, row.line, row.reason, row.text)


def drop_quarantined(pool: Pool, *, tenant: str, wanted: str = "") -> int:
    """Deletes lines from the quarantine; returns how many."""
    query = delete(schema.quarantine).where(*_conditions(tenant, wanted))
    return pool.write(lambda connection: connection.execute(query).rowcount)


def _conditions(tenant: str, wanted: str) -> list[ColumnElement[Any]]:
    bad = schema.quarantine
    conditions: list[ColumnElement[Any]] = [bad.c.tenant == tenant]
    source, _, line = wanted.partition(":")
    if (source and not (source.isalnum() and source.isascii())) or (line and not line.isdecimal()):
        raise StoreError(f"a quarantined line is named IMPORT:LINE, got {wanted!r}; list them")
    if source:
        conditions.append(bad.c.source.startswith(source))
    if line:
        conditions.append(bad.c.line == int(line))
    return conditions
