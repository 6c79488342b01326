"""The secret keys of pseudonyms, one a tenant, outside the records that they are used for.

Deleting a key is final (crypto-shredding): nobody can then link the pseudonyms of earlier exports to persons, or to
pseudonyms of later exports, which get a new key. Copies and backups of the database that are older still have it.
"""

import secrets
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select

from upturn.pool.access.acts import append_act
from upturn.pool.database import Location, driver_of, operator_transaction, reading_engine
from upturn.pool.privacy import KEY_BYTES
from upturn.pool.schema import pseudonym_keys as table
from upturn.records import AdminAct


def pseudonym_key(location: str | Location, *, tenant: str, who: str, when: float) -> bytes:
    """Returns the tenant's key; makes one, with an act, if there is none."""
    stored = _stored(location, tenant)
    if stored is not None:
        return stored
    with operator_transaction(location) as connection:
        stored = connection.execute(_query(tenant)).scalar()
        if stored is not None:
            return bytes(stored)
        key = secrets.token_bytes(KEY_BYTES)
        connection.execute(insert(table), {"tenant": tenant, "key": key, "recorded_at": when})
        append_act(connection, AdminAct(who, "pseudonym key add", tenant, when, tenant), kind="", fields="")
        return key


def has_pseudonym_key(location: str | Location, *, tenant: str) -> bool:
    """Returns whether the tenant has a key."""
    return _stored(location, tenant) is not None


def delete_pseudonym_key(location: str | Location, *, tenant: str, who: str, why: str, when: float) -> bool:
    """Deletes the tenant's key for ever, with an act; returns False if it has none."""
    with operator_transaction(location) as connection:
        _overwrite_deleted(connection)
        if not connection.execute(delete(table).where(table.c.tenant == tenant)).rowcount:
            return False
        act = AdminAct(who, "pseudonym key delete", tenant, when, tenant, why)
        append_act(connection, act, kind="", fields="")
        return True


def _stored(location: str | Location, tenant: str) -> bytes | None:
    engine = reading_engine(location)
    try:
        with engine.connect() as connection:
            stored = connection.execute(_query(tenant)).scalar()
    finally:
        engine.dispose()
    return None if stored is None else bytes(stored)


def _query(tenant: str) -> Select[Any]:
    return select(table.c.key).where(table.c.tenant == tenant)


def _overwrite_deleted(connection: Connection) -> None:
    """Lets SQLite overwrite what is deleted with zeros."""
    if connection.dialect.name == "sqlite":
        driver_of(connection).execute("PRAGMA secure_delete=ON").close()
