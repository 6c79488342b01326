"""API keys of the gateway, and what operators did."""

from typing import Literal

from upturn.records.record import record

Role = Literal["client", "feedback", "operator", "admin"]


@record
class ApiKey:
    """An API key without its secret: the digest recognises the secret and cannot be turned back into it."""

    id: str
    """Public part of the key, by which it is looked up, listed and revoked."""
    digest: str
    """Hexadecimal BLAKE2b-256 of the whole key."""
    tenant: str
    name: str
    """Who or what uses it."""
    roles: tuple[Role, ...]
    created_at: float
    """UTC, seconds since 1970, like the other times."""
    expires_at: float | None = None
    """None = never."""
    revoked_at: float | None = None
    """None = not revoked."""
    usd_per_day: float | None = None
    """Largest cost of a calendar day (UTC); None = the limit of the configuration, as for the other limits."""
    usd_per_month: float | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


@record
class AdminAct:
    """One act of an operator or an administrator."""

    who: str
    """Name of a person, or id of the API key that was used."""
    what: str
    """The act, such as ``keys add``."""
    subject: str
    """Id of what was acted on."""
    when: float
    """UTC, seconds since 1970."""
    tenant: str
    """Tenant that the subject belongs to; empty = the whole installation."""
    why: str = ""
