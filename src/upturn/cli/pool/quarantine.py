"""``upturn pool quarantine``: lines of imported files that could not be used."""

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath, Tenant
from upturn.cli.output import emit, print_message
from upturn.cli.pool.output_file import open_output
from upturn.errors import StoreError
from upturn.pool import Pool, drop_quarantined, quarantined_lines
from upturn.records import Result

quarantine_app = typer.Typer()

_Wanted = Annotated[str, typer.Argument(metavar="[ID]", help="Id of a line or of an import. Default: all.")]
_MAX_SHOWN = 50
"""Lines that are listed as text; ``--json`` lists all."""


@quarantine_app.command("list")
def list_lines(
    wanted: _Wanted = "", *, pool: PoolPath = POOL_PATH, tenant: Tenant = "default", as_json: AsJson = False
) -> None:
    """List quarantined lines: id, file and reason."""
    with Pool.open(pool, read_only=True) as opened:
        lines = quarantined_lines(opened, tenant=tenant, wanted=wanted)
        shown = [
            {"id": line.id, "file": line.path, "reason": line.reason}
            for line in islice(lines, None if as_json else _MAX_SHOWN)
        ]
        count = len(shown) + sum(1 for _ in lines)
    emit("pool quarantine list", [Result("quarantined", float(count), "lines")], {"lines": shown}, as_json=as_json)
    if count > len(shown):
        print_message(f"{count - len(shown)} more; --json lists all")


@quarantine_app.command("show")
def show_line(
    wanted: Annotated[str, typer.Argument(metavar="ID", help="Id of a line.")],
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Show a quarantined line: file, line, reason and text."""
    with Pool.open(pool, read_only=True) as opened:
        line = next(quarantined_lines(opened, tenant=tenant, wanted=wanted), None)
    if line is None:
        raise StoreError(f"tenant {tenant!r} has no quarantined line {wanted!r}; list them with 'quarantine list'")
    emit("pool quarantine show", [], line._asdict(), as_json=as_json)


@quarantine_app.command("write")
def write_lines(
    wanted: _Wanted = "",
    *,
    out: Annotated[Path, typer.Option("--out", help="File to write.")],
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Write the texts of quarantined lines, one a line, to repair them and import the file.

    Exits with 1 if the text of a line was not kept.
    """
    written, missing = 0, []
    with Pool.open(pool, read_only=True) as opened, open_output(out, pool) as target:
        for line in quarantined_lines(opened, tenant=tenant, wanted=wanted):
            if line.text is None:
                missing.append(line.id)
            else:
                target.write(" ".join(line.text.splitlines()) + "\n")
                written += 1
    results = [Result("written", float(written), "lines"), Result("missing", float(len(missing)), "lines")]
    emit("pool quarantine write", results, {"file": str(out), "missing_lines": missing}, as_json=as_json)
    if missing:
        raise typer.Exit(1)


@quarantine_app.command("drop")
def drop_lines(
    wanted: Annotated[str, typer.Argument(metavar="ID", help="Id of a line or of an import.")],
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Delete quarantined lines that are repaired or given up."""
    with Pool.open(pool) as opened:
        count = drop_quarantined(opened, tenant=tenant, wanted=wanted)
    emit("pool quarantine drop", [Result("dropped", float(count), "lines")], {}, as_json=as_json)
