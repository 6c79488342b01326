"""Where the pool's tables name a subject.

All texts are read: those of the tenant's rows, and those that belong to the operator or to the whole installation.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, Text, select

from upturn.pool import schema
from upturn.pool.erasure.subject import Subject
from upturn.pool.selection import ALL_TENANTS, Scope

RECORDS = (
    schema.tasks,
    schema.decisions,
    schema.calls,
    schema.call_contents,
    schema.trajectories,
    schema.evaluations,
    schema.feedback,
)
"""Tables with a tenant's records, which are rewritten."""

LOOSE = {
    schema.submissions: ("reason",),
    schema.imports: ("path", "state"),
    schema.quarantine: ("reason", "text"),
}
"""Columns of other rows that are rewritten, by table."""

_NO_TEXT = frozenset({"digest", "hash", "tenant"})
_ROWS_AT_ONCE = 500


class Hit(NamedTuple):
    """A row that names the subject."""

    table: Table
    key: tuple[Any, ...]
    """Values of the primary key."""

    def __str__(self) -> str:
        return " ".join((self.table.name, *map(str, self.key)))


def search(connection: Connection, subject: Subject, *, tenant: Scope) -> Iterator[Hit]:
    """Yields the rows that name the subject."""
    for table in schema.metadata.sorted_tables:
        texts = [column for column in table.c if isinstance(column.type, Text) and column.name not in _NO_TEXT]
        if not texts:
            continue
        query = select(*table.primary_key, *texts).execution_options(yield_per=_ROWS_AT_ONCE)
        if "tenant" in table.c and tenant is not ALL_TENANTS:
            query = query.where(table.c.tenant.in_(_tenants(table, tenant)))
        width = len(table.primary_key)
        for row in connection.execute(query):
            if any(value and subject(value) for value in row[width:]):
                yield Hit(table, tuple(row[:width]))


def _tenants(table: Table, tenant: str) -> tuple[str, ...]:
    """Entries and acts without a tenant belong to the whole installation."""
    return (tenant, "") if table in (schema.admin_acts, schema.audit_entries) else (tenant,)
