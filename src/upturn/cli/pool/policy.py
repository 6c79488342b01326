"""``upturn pool policy``."""

from time import time
from typing import Annotated, get_args

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath, Tenant, Who, Why, user_name
from upturn.cli.output import emit
from upturn.errors import ConfigError, UnknownNameError
from upturn.pool import Pool, pool_exists
from upturn.pool.access import AnonymisedAt, ReplacedBy, current_policy, set_policy
from upturn.records import JsonValue

_CHOICES = {"anonymise": AnonymisedAt, "replace_by": ReplacedBy}


def policy(  # noqa: PLR0913  a command's parameters are its options
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    anonymise: Annotated[
        str, typer.Option("--anonymise", help="When personal data is replaced: export, or write (before storing).")
    ] = "",
    replace_by: Annotated[
        str,
        typer.Option("--replace-by", help="What stands for it at write: masks or pseudonyms."),
    ] = "",
    who: Who = "",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Show or change what a tenant has decided about its data. A change is an act that is stored with its reason.

    Creates the pool if there is none. A gateway that runs follows a change within a second.
    """
    changes = _changes({"anonymise": anonymise, "replace_by": replace_by})
    if changes and not why.strip():
        raise ConfigError(["a change of a tenant's policy needs its reason; give --why"])
    if changes and not pool_exists(pool):
        Pool.open(pool).close()
    with Pool.open(pool, read_only=True) as opened:
        if changes:
            now = set_policy(opened, changes, tenant=tenant, who=who or user_name(), why=why, when=time())
        else:
            now = current_policy(opened.engine, tenant=tenant)
    details: dict[str, JsonValue] = {"tenant": tenant, "anonymise": now.anonymise, "replace_by": now.replace_by}
    emit("pool policy", [], details, as_json=as_json)


def _changes(given: dict[str, str]) -> dict[str, JsonValue]:
    """Returns the given values; raises UnknownNameError."""
    for name, value in given.items():
        allowed = get_args(_CHOICES[name])
        if value and value not in allowed:
            option = name.replace("_", "-")
            raise UnknownNameError(f"--{option} must be one of {', '.join(allowed)}, got {value!r}")
    return {name: value for name, value in given.items() if value}
