"""``upturn pool export`` and ``copy``."""

from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, Families, PoolPath, Tenant
from upturn.cli.output import emit, print_message
from upturn.cli.pool.output_file import open_output
from upturn.pool import (
    ALL_TENANTS,
    Pool,
    Selection,
    copy_pool,
    counts,
    export,
)
from upturn.records import Result


def copy(
    *,
    pool: PoolPath = POOL_PATH,
    out: Annotated[Path, typer.Option("--out", help="File of the copy; it must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Copy a pool, also while a gateway writes it, for example to train on the copy."""
    copy_pool(pool, out)
    with Pool.open(out, read_only=True) as opened:
        stored = counts(opened, tenant=ALL_TENANTS)
    emit("pool copy", [], {"file": str(out), "records": stored._asdict()}, as_json=as_json)


def export_records(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    out: Annotated[Path | None, typer.Option("--out", help="File to write. Default: standard output.")] = None,
    family: Families = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not anonymise.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export a tenant's records as JSON lines, anonymised unless --raw is set."""
    if as_json and out is None:
        raise typer.BadParameter("--json prints one object on standard output; set --out for the records")
    selection = Selection(families=tuple(family or ()))
    lines = changed = 0
    with Pool.open(pool, read_only=True) as opened, open_output(out, pool) as target:
        for exported in export(opened, tenant=tenant, selection=selection, is_anonymised=not raw):
            target.write(exported.line + "\n")
            lines += 1
            changed += exported.is_changed
    if out is None:
        print_message(f"{lines} records written, {changed} of them anonymised")
        return
    results = [Result("records", float(lines)), Result("anonymised", float(changed), "records")]
    emit("pool export", results, {"file": str(out), "tenant": tenant, "is_raw": raw}, as_json=as_json)
