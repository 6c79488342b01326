"""``upturn pool shred``, and what stands for personal data in exports."""

from time import time

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath, Tenant, Who, Why, user_name
from upturn.cli.output import emit, print_message
from upturn.pool import Pool
from upturn.pool.access import delete_pseudonym_key, pseudonym_key, record_act
from upturn.pool.privacy import Pseudonymiser, Replacer, mask
from upturn.records import AdminAct, Result


def chosen_replacer(pool: str, *, tenant: str, has_pseudonyms: bool, who: str) -> Replacer:
    """What stands for findings: masks, or pseudonyms with the tenant's key, which is made if there is none."""
    if not has_pseudonyms:
        return mask
    return Pseudonymiser(pseudonym_key(pool, tenant=tenant, who=who or user_name(), when=time()))


def record_raw_export(pool: str, *, tenant: str, who: str, why: str) -> None:
    """Stores the act of a raw export, before anything is written."""
    record_act(pool, AdminAct(who or user_name(), "pool export raw", tenant, time(), tenant, why))


def shred(
    *, pool: PoolPath = POOL_PATH, tenant: Tenant = "default", who: Who = "", why: Why = "", as_json: AsJson = False
) -> None:
    """Delete the key of a tenant's pseudonyms, for ever: nobody can then link those of earlier exports to anybody.

    The next export with --pseudonyms gets a new key. Older backups of the pool still have the old one.
    """
    Pool.open(pool, read_only=True).close()  # names a missing pool
    is_deleted = delete_pseudonym_key(pool, tenant=tenant, who=who or user_name(), why=why, when=time())
    emit("pool shred", [Result("deleted_keys", float(is_deleted))], {"tenant": tenant}, as_json=as_json)
    if not is_deleted:
        print_message(f"tenant {tenant!r} has no key: no export had pseudonyms, or it was deleted before")
        raise typer.Exit(1)
