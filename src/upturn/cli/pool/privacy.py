"""``upturn pool forget``, ``shred``, ``privacy`` and ``policy``, and what stands for personal data in exports."""

from time import time
from typing import Annotated, get_args

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath, Tenant, Who, Why, user_name
from upturn.cli.output import emit, print_message
from upturn.errors import ConfigError, UnknownNameError
from upturn.pool import Pool, pool_exists
from upturn.pool.access import (
    AnonymisedAt,
    ReplacedBy,
    current_policy,
    delete_pseudonym_key,
    pseudonym_key,
    record_act,
    set_policy,
)
from upturn.pool.erasure import Subject
from upturn.pool.erasure import forget as forget_subject
from upturn.pool.privacy import Pseudonymiser, Replacer, mask
from upturn.pool.quality import anonymity
from upturn.records import AdminAct, JsonValue, Result

_CHOICES = {"anonymise": AnonymisedAt, "replace_by": ReplacedBy}


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


def forget(  # noqa: PLR0913  a command's parameters are its options
    *,
    subject: Annotated[
        str, typer.Option("--subject", help="What to erase: an address, a number, a name; in any spelling.")
    ],
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be erased.")] = False,
    who: Who = "",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Erase a person from a tenant's records, write the database anew, and search it again.

    The records stay, with <ERASED> in their texts; tokens that may hold the subject are dropped. Snapshots that
    changed and versions that were trained on them are listed. Stop programs that write the pool first. Exits with 1
    if anything still names the subject.
    """
    act = AdminAct(who or user_name(), "pool forget", "a person", time(), tenant, why)
    done = forget_subject(pool, Subject(subject), act=act, is_dry_run=dry_run)
    results = [
        Result("rows", float(sum(done.records.values()))),
        Result("dropped_tokens", float(done.dropped_tokens)),
        Result("deleted_blobs", float(done.deleted_blobs)),
    ]
    if not dry_run:
        results.append(Result("remaining", float(len(done.remaining)), bar="<= 0", holds=not done.remaining))
    details = {
        "tenant": tenant,
        "is_dry_run": dry_run,
        "rows_by_table": done.records,
        "snapshots": list(done.snapshots),
        "versions": list(done.versions),
        "remaining": list(done.remaining),
        "shared_files": list(done.shared_files),
    }
    emit("pool forget", results, details, as_json=as_json)
    if done.versions:
        print_message(
            "versions that were trained on the subject's records are listed; train them anew without them"
        )
    if done.shared_files:
        print_message("records of other tenants name the subject too, so the file holds it")
    if done.remaining:
        print_message(
            "ids and the operator's own rows cannot be rewritten: they are listed, and still name the subject"
        )
        raise typer.Exit(1)


def report(*, pool: PoolPath = POOL_PATH, tenant: Tenant = "default", as_json: AsJson = False) -> None:
    """Show how many tasks of an anonymised export share their quasi-identifiers, such as place, age and occupation:
    k-anonymity, and the rarest combinations.
    """
    with Pool.open(pool, read_only=True) as opened:
        measured = anonymity(opened.experiences(tenant=tenant, has_tokens=False))
        stored = len({row.task_id for row in opened.selected(tenant=tenant)})
    results = [
        Result("tasks", float(stored)),
        Result("tasks_with_quasi_identifiers", float(measured.tasks)),
        *([] if measured.k is None else [Result("k", float(measured.k), n=measured.tasks)]),
        Result("unique_tasks", float(measured.unique), n=measured.tasks),
    ]
    rarest = [{"tasks": count, **dict(combination)} for combination, count in measured.rarest]
    emit("pool privacy", results, {"tenant": tenant, "rarest": rarest}, as_json=as_json)


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
    share: Annotated[
        bool | None,
        typer.Option("--share/--no-share", help="Whether other tenants may train on its anonymised records."),
    ] = None,
    who: Who = "",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Show or change what a tenant has decided about its data. A change is an act that is stored with its reason.

    Creates the pool if there is none. A gateway that runs follows a change within a second.
    """
    changes = _changes({"anonymise": anonymise, "replace_by": replace_by})
    changes |= {} if share is None else {"share": share}
    if changes and not why.strip():
        raise ConfigError(["a change of a tenant's policy needs its reason; give --why"])
    if changes and not pool_exists(pool):
        Pool.open(pool).close()
    with Pool.open(pool, read_only=True) as opened:
        if changes:
            now = set_policy(opened, changes, tenant=tenant, who=who or user_name(), why=why, when=time())
        else:
            now = current_policy(opened.engine, tenant=tenant)
    details: dict[str, JsonValue] = {
        "tenant": tenant,
        "anonymise": now.anonymise,
        "replace_by": now.replace_by,
        "share": now.share,
    }
    emit("pool policy", [], details, as_json=as_json)


def _changes(given: dict[str, str]) -> dict[str, JsonValue]:
    """Returns the given values; raises UnknownNameError."""
    for name, value in given.items():
        allowed = get_args(_CHOICES[name])
        if value and value not in allowed:
            option = name.replace("_", "-")
            raise UnknownNameError(f"--{option} must be one of {', '.join(allowed)}, got {value!r}")
    return {name: value for name, value in given.items() if value}
