"""The section of ``upturn.toml`` for keys, limits and browsers, and the policy for tools that a provider runs."""

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, Literal, TypeAlias

from upturn.config.settings import (
    Count,
    Name,
    NotNegative,
    Positive,
    Settings,
    WholeNumber,
    matches,
    report_unused,
    settings,
)

ProviderToolPolicy: TypeAlias = Literal["allow", "strip", "refuse"]
"""What happens to a request that asks the provider to fetch or run something (docs/gateway-security.md). ``strip``:
that is taken out, and the call's record says so."""

Origin = Annotated[
    str, matches(r"https?://[^/*?#\s]+", "scheme and host, such as https://app.example.com, without a path")
]
"""Scheme, host and port of a web page, such as ``https://shop.example``."""


@settings
class LimitSettings(Settings):
    """Limits of all calls of a tenant, or of one key. Unset = no limit."""

    usd_per_day: NotNegative | None = None
    """Largest cost of a calendar day (UTC) in USD."""
    usd_per_month: NotNegative | None = None
    """Largest cost of a calendar month (UTC) in USD."""
    requests_per_minute: Count | None = None
    """Largest rate of requests; as many may come at once."""
    tokens_per_minute: Count | None = None
    """Largest rate of read and written tokens."""


@settings
class TenantConfig(LimitSettings):
    """Limits of one tenant, for all its keys together; one ``[[access.tenants]]`` table per tenant."""

    name: Name = "default"
    """Name of the tenant."""
    regions: tuple[Name, ...] = ()
    """Regions of agents that its calls and tasks may go to. Empty = any."""


@settings
class AccessConfig(Settings):
    """Who may use the gateway, and how much (docs/gateway-security.md). Keys are made by ``upturn keys add``."""

    keys: Literal["auto", "required", "off"] = "auto"
    """Whether requests need an API key. ``auto``: on loopback only once the pool has a key, on other addresses
    always. ``off``: never, only on loopback."""
    key_limits: LimitSettings = LimitSettings()
    """Limits of each key that was made without its own."""
    tenants: tuple[TenantConfig, ...] = ()
    """Limits of tenants. A tenant without a table has none."""
    allowed_origins: tuple[Origin, ...] = ()
    """Web pages that may call the gateway from a browser (CORS). Empty = none."""
    max_in_flight: Count = 512
    """Maximum number of calls that are served at the same time."""
    max_waiting: WholeNumber = 512
    """Maximum number of calls that wait for their turn; further ones are refused with status 503. With at most
    ``max_in_flight``, a call waits about as long as a call takes."""
    max_wait_seconds: Positive = 10.0
    """Longest time that a call waits for its turn; then it is refused with status 503."""

    def problems(self) -> Iterator[str | None]:
        """Yields tenants that are named twice, and settings without effect."""
        names = [tenant.name for tenant in self.tenants]
        twice = sorted({name for name in names if names.count(name) > 1})
        yield f"tenants name {', '.join(map(repr, twice))} twice; name each tenant once" if twice else None
        is_unused = self.max_waiting == 0 and self.max_wait_seconds != 10.0
        cure = "with max_waiting=0; let calls wait, or leave it out"
        yield report_unused(is_unused, f"max_wait_seconds={self.max_wait_seconds}", cure)
        if self.keys == "off":
            cure = "with keys='off'; no request has a key"
            yield report_unused(self.key_limits != LimitSettings(), "key_limits", cure)

    def bind_problem(self, host: str, *, has_keys: bool) -> str | None:
        """Returns why the gateway may not bind to ``host``; None = it may. ``has_keys``: a valid key is stored."""
        if is_loopback(host):
            return None
        address = f"gateway.host = {host!r} can be reached from other machines"
        if self.keys == "off":
            return f"{address}, and access.keys = 'off' lets everybody in; remove one of them"
        if not has_keys:
            cure = "make one with `upturn keys add`, or bind to 127.0.0.1"
            return f"{address}, and the pool has no valid API key (access.keys = {self.keys!r}); {cure}"
        return None

    def requires_keys(self, host: str) -> bool:
        """Returns whether requests always need a key; False = only once the pool has one, or never (``off``)."""
        return self.keys == "required" or not is_loopback(host)


@lru_cache(maxsize=64)  # every request asks for its host
def is_loopback(host: str) -> bool:
    """Returns whether an address can be reached from this machine alone; other names than localhost may be any."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
