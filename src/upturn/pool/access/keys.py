"""The table of API keys. Keys are added and revoked while another process has the pool open for writing.

A key that is revoked stays in the table, because calls name it.
"""

from dataclasses import replace
from typing import Self

from sqlalchemy import Engine, func, insert, select, update

from upturn.errors import StoreConflictError, StoreError, UnknownNameError
from upturn.pool.access.acts import append_act
from upturn.pool.database import Location, backend_of, check_head, location_of, operator_transaction
from upturn.pool.schema import admin_acts, api_keys
from upturn.pool.selection import ALL_TENANTS, Scope, in_scope
from upturn.records import AdminAct, ApiKey, fields_json, from_fields

_KIND = api_keys.name


class KeyReader:
    """Reads the API keys of a pool that is open. Safe to share between threads."""

    def __init__(self, engine: Engine) -> None:
        """``engine``: of the pool, which closes it."""
        self.engine = engine

    def version(self) -> int:
        """Returns a number that grows with every change of a key."""
        query = select(func.max(admin_acts.c.sequence)).where(admin_acts.c.kind == _KIND)
        with self.engine.connect() as connection:
            return int(connection.execute(query).scalar() or 0)

    def keys(self, *, tenant: Scope) -> list[ApiKey]:
        """Returns the tenant's keys, also revoked and expired ones, by time of creation."""
        query = select(api_keys.c.fields).where(*in_scope(api_keys.c.tenant, tenant))
        with self.engine.connect() as connection:
            stored = [from_fields(ApiKey, fields) for fields in connection.execute(query).scalars()]
        return sorted(stored, key=lambda key: (key.created_at, key.id))


class KeyStore(KeyReader):
    """The API keys of a pool that need not be open here; to be closed. Safe to use next to the pool's writer."""

    def __init__(self, location: str | Location) -> None:
        """``location`` is an existing pool; raises StoreError for any other place."""
        self._location = location_of(location)
        backend = backend_of(self._location)
        if not backend.exists():
            raise StoreError(f"no pool at {str(self._location)!r}; `upturn keys add` creates one")
        super().__init__(backend.reading_engine())
        try:
            check_head(self.engine)
        except BaseException:
            self.engine.dispose()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self.engine.dispose()

    def add(self, key: ApiKey, *, who: str, why: str = "") -> None:
        """Stores a new key and the act; raises StoreConflictError if its id is taken."""
        fields = fields_json(key)
        act = AdminAct(who, "keys add", key.id, key.created_at, key.tenant, why)
        with operator_transaction(self._location) as connection:
            taken = connection.execute(select(api_keys.c.id).where(api_keys.c.id == key.id)).first()
            if taken is not None:
                raise StoreConflictError(f"an API key with id {key.id!r} is stored already; make another one")
            connection.execute(insert(api_keys), {"id": key.id, "tenant": key.tenant, "fields": fields})
            append_act(connection, act, kind=_KIND, fields=fields)

    def revoke(self, key_id: str, *, when: float, who: str, why: str = "", tenant: Scope = ALL_TENANTS) -> ApiKey:
        """Revokes a key and stores the act; returns the key. Revoking it again changes nothing.

        Raises UnknownNameError for an id that the tenant does not have.
        """
        of_tenant = (api_keys.c.id == key_id, *in_scope(api_keys.c.tenant, tenant))
        with operator_transaction(self._location) as connection:
            fields = connection.execute(select(api_keys.c.fields).where(*of_tenant)).scalar()
            if fields is None:
                raise UnknownNameError(f"no API key has the id {key_id!r}; `upturn keys list` shows the ids")
            key = from_fields(ApiKey, fields)
            if key.revoked_at is not None:
                return key
            key = replace(key, revoked_at=when)
            fields = fields_json(key)
            connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(fields=fields))
            act = AdminAct(who, "keys revoke", key_id, when, key.tenant, why)
            append_act(connection, act, kind=_KIND, fields=fields)
            return key
