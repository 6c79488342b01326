"""``upturn pool card``."""

from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AllTenants, AsJson, PoolPath, Tenant
from upturn.cli.output import emit, print_message, progress
from upturn.cli.pool.output_file import open_output
from upturn.pool import Pool, find_snapshot
from upturn.pool.exports import SnapshotCard, snapshot_card, write_card
from upturn.records import Result


def card(  # noqa: PLR0913  a command's parameters are its options
    snapshot: Annotated[str, typer.Argument(help="Id of the snapshot.")],
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    licence: Annotated[str, typer.Option("--licence", help="Licence of the data. Default: not stated.")] = "",
    out: Annotated[Path | None, typer.Option("--out", help="File to write. Default: standard output.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the card of a snapshot as Markdown: what, from when, whose, how good, and how to get it again.

    Exits with 1 if the snapshot's id does not match what is stored.
    """
    if as_json and out is None:
        raise typer.BadParameter("--json prints one object on standard output; set --out for the card")
    with Pool.open(pool, read_only=True) as opened:
        total = len(find_snapshot(opened, snapshot).trajectory_ids)
        with progress("trajectories", total) as ticker:
            made = snapshot_card(opened, snapshot, tenant=None if all_tenants else tenant, on_point=ticker.advance)
    with open_output(out, pool) as target:
        target.write(write_card(made, licence=licence))
    if out is not None:
        emit("pool card", _results(made), {"file": str(out), "snapshot": snapshot}, as_json=as_json)
    if not made.is_manifest_valid:
        print_message("the snapshot's id does not match what is stored; run `upturn pool validate`")
        raise typer.Exit(1)


def _results(made: SnapshotCard) -> list[Result]:
    return [
        Result("trajectories", float(made.points)),
        Result("clean", float(made.clean), "trajectories"),
        Result("private", float(made.private), "trajectories"),
        Result("manifest_matches", float(made.is_manifest_valid), bar=">= 1", holds=made.is_manifest_valid),
    ]
