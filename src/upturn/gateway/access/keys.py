"""Who makes a request, by API key, and what each role may do. No server, no database.

Order of checks: present, form, id, digest, revoked, expired.
"""

import hmac
from collections.abc import Callable, Collection, Mapping
from time import monotonic, time
from typing import Literal, NamedTuple, Protocol

from upturn.config import is_loopback
from upturn.dialects import RequestError
from upturn.pool import ALL_TENANTS, Scope
from upturn.pool.access import key_digest, key_id
from upturn.records import ApiKey, Role

Permission = Literal["call", "feedback", "observe", "operate", "administer"]

PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    "client": frozenset({"call"}),
    "feedback": frozenset({"feedback"}),
    "operator": frozenset({"call", "feedback", "observe", "operate"}),
    "admin": frozenset({"call", "feedback", "observe", "operate", "administer"}),
}
"""``call``: model calls, tasks and episodes of its tenant. ``feedback``: feedback on its tenant's records.
``observe``: router state and metrics. ``operate``: agents, releases, policies. ``administer``: keys, a reload of
the configuration, and the log of acts."""

REFRESH_SECONDS = 0.5
"""Largest age of what a process knows about keys; a revoked key works for less than a second longer."""

_NOBODY = "0" * 64
"""Compared with where no key has the id, so that both cases take equally long."""


class Caller(NamedTuple):
    """Who makes a request."""

    tenant: str
    key: ApiKey | None = None
    """None = a request without a key, which only a server on loopback accepts. It may do everything."""

    @property
    def id(self) -> str:
        """Id of the key; empty = none."""
        return "" if self.key is None else self.key.id

    def may(self, permission: Permission) -> bool:
        """Returns whether one of the key's roles has the permission."""
        return self.key is None or any(permission in PERMISSIONS[role] for role in self.key.roles)

    def require(self, permission: Permission) -> None:
        """Raises RequestError (403) without the permission."""
        if self.key is not None and not self.may(permission):
            allowed = ", ".join(role for role, permissions in PERMISSIONS.items() if permission in permissions)
            raise RequestError(
                f"the API key {self.key.id!r} has the roles {', '.join(self.key.roles)}; this needs one of: "
                f"{allowed}. Make a key with `upturn keys add --role {allowed.partition(',')[0]}`",
                status=403,
                code="permission_denied",
            )


def key_in(headers: Mapping[str, str]) -> str:
    """Returns the key of a request; empty = none.

    ``headers``: by name in lower case. ``x-api-key`` (Anthropic) comes before ``authorization: Bearer …``.
    """
    if key := headers.get("x-api-key", "").strip():
        return key
    scheme, _, value = headers.get("authorization", "").strip().partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


class StoredKeys(Protocol):
    """Reads the table of keys, as ``pool.access.KeyStore`` does."""

    def version(self) -> int:
        """Returns a number that grows with every change of a key."""

    def keys(self, *, tenant: Scope) -> list[ApiKey]:
        """Returns the tenant's keys, also revoked and expired ones."""


class KeyRing:
    """The keys of a pool in memory. Checking a key takes microseconds.

    Every ``REFRESH_SECONDS``, the next check asks the pool whether a key changed. A check raises StoreError if the
    pool cannot be read: no key is accepted on old knowledge. For one thread, such as that of an event loop.
    """

    def __init__(
        self,
        store: StoredKeys,
        *,
        clock: Callable[[], float] = time,
        timer: Callable[[], float] = monotonic,
        on_change: Callable[[Collection[ApiKey]], None] = lambda _: None,
    ) -> None:
        """``clock`` returns UTC seconds; ``timer`` seconds that never go back. ``on_change`` is called with all
        keys, at the first check and after each change."""
        self._store = store
        self._clock = clock
        self._timer = timer
        self._version = -1
        self._on_change = on_change
        self._refreshed_at = float("-inf")
        self._keys: dict[str, ApiKey] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the pool never had a key; revoking the last one does not open a server again."""
        self._refresh()
        return not self._keys

    @property
    def has_valid_key(self) -> bool:
        """Whether a key is neither revoked nor expired."""
        self._refresh()
        now = self._clock()
        return any(
            key.revoked_at is None and (key.expires_at is None or key.expires_at > now)
            for key in self._keys.values()
        )

    def check(self, key: str) -> Caller:
        """Returns the caller with this key; raises RequestError (401) for one that is not valid.

        Why a key is not valid is said only to somebody who has the whole key.
        """
        self._refresh()
        stored = self._keys.get(key_id(key))
        is_right = hmac.compare_digest(key_digest(key), _NOBODY if stored is None else stored.digest)
        if stored is None or not is_right:
            raise _unauthorised("the API key is not valid; check it, or make one with `upturn keys add`")
        if stored.revoked_at is not None:
            raise _unauthorised(f"the API key {stored.id!r} was revoked; make one with `upturn keys add`")
        if stored.expires_at is not None and stored.expires_at <= self._clock():
            raise _unauthorised(f"the API key {stored.id!r} has expired; make one with `upturn keys add`")
        return Caller(stored.tenant, stored)

    def find(self, name: str) -> ApiKey | None:
        """Returns the key with this id; None = there is none."""
        self._refresh()
        return self._keys.get(name)

    def _refresh(self) -> None:
        now = self._timer()
        if now - self._refreshed_at < REFRESH_SECONDS:
            return
        version = self._store.version()
        if version != self._version:
            self._keys = {key.id: key for key in self._store.keys(tenant=ALL_TENANTS)}
            self._version = version
            self._on_change(self._keys.values())
        self._refreshed_at = now


class Gate:
    """Decides who a request comes from, for one server.

    Requests without a key are accepted on loopback only, where web pages are the danger: a browser on this machine
    can send them. So a request of a page whose origin is not allowed, or to a name that is not this machine's (DNS
    rebinding), is refused.
    """

    def __init__(
        self,
        ring: KeyRing | None,
        *,
        tenant: str,
        is_required: bool,
        allowed_origins: Collection[str] = (),
    ) -> None:
        """``ring`` None = keys are off, every request is accepted. ``tenant``: that of requests without a key.

        ``is_required``: True = they are never accepted; False = they are accepted while the pool never had a key.
        """
        self._ring = ring
        self._open = Caller(tenant)
        self._is_required = is_required
        self._allowed_origins = frozenset(allowed_origins)

    @property
    def needs_key(self) -> bool:
        """Whether a request without an API key is refused."""
        return self._ring is not None and (self._is_required or not self._ring.is_empty)

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Returns who makes the request; raises RequestError (401, 403). ``headers``: by name in lower case."""
        if self._ring is None or not self.needs_key:
            self._refuse_strange_pages(headers)
            return self._open  # clients send any key where none is needed
        key = key_in(headers)
        if not key:
            raise _unauthorised(
                "the request has no API key; send `authorization: Bearer up-…` or `x-api-key: up-…`, and make a "
                "key with `upturn keys add`"
            )
        return self._ring.check(key)

    def key(self, name: str) -> ApiKey | None:
        """Returns the key with this id; None = there is none, or keys are off."""
        return None if self._ring is None else self._ring.find(name)

    def _refuse_strange_pages(self, headers: Mapping[str, str]) -> None:
        origin = headers.get("origin")
        if origin is not None and origin not in self._allowed_origins:
            raise RequestError(
                f"the web page {origin!r:.200} may not call; list it in access.allowed_origins",
                status=403,
                code="origin_not_allowed",
            )
        host = headers.get("host", "localhost")
        name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        if not is_loopback(name):
            raise RequestError(
                f"the request is for the host {host!r:.200}, and without API keys only this machine is served; "
                "make a key with `upturn keys add`",
                status=403,
                code="host_not_allowed",
            )


def _unauthorised(message: str) -> RequestError:
    return RequestError(message, status=401, code="invalid_api_key")
