"""``upturn keys``: adds, lists and revokes the gateway's API keys, also while it runs."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Annotated, get_args

import typer

from upturn.cli.options import CONFIG_PATH, POOL_PATH, AllTenants, AsJson, PoolPath, Tenant, Who, Why, user_name
from upturn.cli.output import emit
from upturn.errors import ConfigError, UnknownNameError
from upturn.pool import ALL_TENANTS, Pool, pool_exists
from upturn.pool.access import KeyStore, admin_acts, make_key
from upturn.records import AdminAct, ApiKey, JsonValue, Role

keys_app = typer.Typer()

_DAY_SECONDS = 86_400.0
_MOST_DAYS = 36_500
_MOST = 1_000_000_000
"""Largest limit: above it, none is meant."""
_ROLES: tuple[Role, ...] = get_args(Role)


@keys_app.command("add")
def add(  # noqa: PLR0913  a command's parameters are its options
    name: Annotated[str, typer.Argument(help="Who or what will use the key.")],
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role", help="client, feedback, operator or admin; repeatable. Default: client and feedback."
        ),
    ] = None,
    expires_days: Annotated[
        float | None, typer.Option(min=0.0, max=_MOST_DAYS, help="Days until the key expires.")
    ] = None,
    usd_per_day: Annotated[
        float | None, typer.Option(min=0.0, max=_MOST, help="Largest cost of a day (UTC).")
    ] = None,
    usd_per_month: Annotated[
        float | None, typer.Option(min=0.0, max=_MOST, help="Largest cost of a month (UTC).")
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, max=_MOST, help="Largest rate of requests.")
    ] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=1, max=_MOST, help="Largest rate of tokens.")] = None,
    who: Who = "",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Add an API key and print it, once: the pool stores only a digest. Creates the pool if there is none."""
    roles = _roles(role or ["client", "feedback"])
    if not name.strip() or not tenant.strip():
        raise ConfigError([f"a key has a name and a tenant, got name {name!r} and tenant {tenant!r}"])
    if not pool_exists(pool):
        Pool.open(pool).close()
    made = make_key()
    now = time()
    key = ApiKey(
        made.id,
        made.digest,
        tenant,
        name,
        roles,
        now,
        None if expires_days is None else now + expires_days * _DAY_SECONDS,
        None,
        usd_per_day,
        usd_per_month,
        requests_per_minute,
        tokens_per_minute,
    )
    with KeyStore(pool) as store:
        store.add(key, who=who or user_name(), why=why)
    details: dict[str, JsonValue] = {"key": made.key, **_described(key, now)}
    if (usd_per_day is not None or usd_per_month is not None) and not _has_prices(CONFIG_PATH):
        details["warning"] = (
            f"{str(CONFIG_PATH)!r} in this folder has no [prices.NAME]: the budget counts nothing until the "
            "gateway's configuration has the prices of its agents; calls without a price cost nothing here"
        )
    emit("keys add", [], details, as_json=as_json)


@keys_app.command("list")
def list_keys(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    has_acts: Annotated[bool, typer.Option("--log", help="Also list who did what and when.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the API keys, oldest first, also revoked and expired ones."""
    scope, now = ALL_TENANTS if all_tenants else tenant, time()
    with KeyStore(pool) as store:
        details: dict[str, object] = {"keys": [_described(key, now) for key in store.keys(tenant=scope)]}
        if has_acts:
            details["acts"] = [_act(act) for act in admin_acts(store.engine, tenant=scope)]
    emit("keys list", [], details, as_json=as_json)


@keys_app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key, see `upturn keys list`.")],
    *,
    pool: PoolPath = POOL_PATH,
    who: Who = "",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Revoke an API key. A gateway that runs refuses it within a second."""
    now = time()
    with KeyStore(pool) as store:
        key = store.revoke(key_id, when=now, who=who or user_name(), why=why)
    emit("keys revoke", [], _described(key, now), as_json=as_json)


def _roles(names: list[str]) -> tuple[Role, ...]:
    for name in names:
        if name not in _ROLES:
            raise UnknownNameError(f"unknown role {name!r}; known: {', '.join(_ROLES)}")
    return tuple(role for role in _ROLES if role in names)


def _has_prices(path: Path) -> bool:
    """Whether the configuration has any price; it is not checked here, and may not exist."""
    try:
        return bool(tomllib.loads(path.read_text(encoding="utf-8-sig")).get("prices"))
    except (OSError, ValueError):
        return False


def _described(key: ApiKey, now: float) -> dict[str, JsonValue]:
    """What may be shown of a key."""
    is_expired = key.expires_at is not None and key.expires_at <= now
    shown: dict[str, JsonValue] = {
        "id": key.id,
        "name": key.name,
        "tenant": key.tenant,
        "roles": list(key.roles),
        "state": "revoked" if key.revoked_at is not None else "expired" if is_expired else "active",
        "created": _date(key.created_at),
    }
    optional: dict[str, JsonValue] = {
        "expires": None if key.expires_at is None else _date(key.expires_at),
        "revoked": None if key.revoked_at is None else _date(key.revoked_at),
        "usd_per_day": key.usd_per_day,
        "usd_per_month": key.usd_per_month,
        "requests_per_minute": key.requests_per_minute,
        "tokens_per_minute": key.tokens_per_minute,
    }
    return shown | {name: value for name, value in optional.items() if value is not None}


def _act(act: AdminAct) -> dict[str, JsonValue]:
    return {"when": _date(act.when), "who": act.who, "what": act.what, "subject": act.subject, "why": act.why}


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
