"""The stored blobs of token ids: reading those that packed rows refer to, by
tenant.

A blob belongs to a tenant: two tenants with the same prompt have a copy each, so that deleting one tenant's data
deletes all of it.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from sqlalchemy import Connection, select

from upturn.errors import RecordError
from upturn.pool.schema import token_blobs
from upturn.pool.tokens.codec import references

_KEYS_PER_QUERY = 500
"""SQLite allows 999 parameters in a query; PostgreSQL more."""


def load_blobs(
    connection: Connection, packed: Iterable[tuple[str, bytes | None]]
) -> Mapping[str, Mapping[bytes, bytes]]:
    """Returns the data of the blobs that these (tenant, packed rows) refer to, by tenant and digest.

    Blobs that are not stored are absent. Rows that are None or damaged refer to none; unpacking reports the latter.
    """
    wanted: dict[str, dict[bytes, None]] = {}
    for tenant, data in packed:
        with suppress(RecordError):
            wanted.setdefault(tenant, {}).update(dict.fromkeys(() if data is None else references(data)))
    return {tenant: _data_of(connection, tenant, list(digests)) for tenant, digests in wanted.items()}


def _data_of(connection: Connection, tenant: str, digests: list[bytes]) -> dict[bytes, bytes]:
    stored: dict[bytes, bytes] = {}
    for start in range(0, len(digests), _KEYS_PER_QUERY):
        page = digests[start : start + _KEYS_PER_QUERY]
        query = select(token_blobs.c.digest, token_blobs.c.data)
        query = query.where(token_blobs.c.tenant == tenant, token_blobs.c.digest.in_(page))
        stored.update((row.digest, row.data) for row in connection.execute(query))
    return stored
