"""``upturn ingest``: recorded conversations into the pool."""

from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.output import emit, say
from upturn.errors import IngestError
from upturn.pool import Pool
from upturn.pool.importer import IngestOptions, check_source
from upturn.pool.importer import ingest as take_in
from upturn.records import Result

_LISTED = 20
"""Quarantined lines that are shown to people; ``--json`` gives all."""


def ingest(  # noqa: PLR0913 - a command's parameters are its options
    file: Annotated[Path, typer.Argument(help="The file with recorded conversations.")],
    *,
    file_format: Annotated[str, typer.Option("--format", help="tau-bench (a JSON array) or chat (JSON lines).")],
    pool: Annotated[Path, typer.Option("--pool", help="The pool's file; made if it is not there.")] = Path(
        "upturn.db"
    ),
    tenant: Annotated[str, typer.Option("--tenant", help="Whose evidence it becomes.")] = "default",
    family: Annotated[
        str | None, typer.Option("--family", help="Task family where the recording names none.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Model where the recording names none; default: the file's name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Take recorded conversations into the pool. Exit code 1 when lines had to be quarantined."""
    if not file.is_file():
        raise IngestError(f"there is no file {str(file)!r}; name one that exists")
    options = IngestOptions(file_format, tenant, family, agent)
    check_source(file, options)  # before a pool is made for nothing
    with Pool.open(pool) as opened:
        report = take_in(opened, file, options)
    bad = len(report.quarantined)
    results = [
        Result("lines", float(report.lines)),
        Result("added", float(report.added), "trajectories"),
        Result("known", float(report.known), "trajectories"),
        Result("quarantined", float(bad), "lines", bar="<= 0", holds=bad == 0),
    ]
    shown = report.quarantined if as_json else report.quarantined[:_LISTED]
    details = {
        "file": str(file),
        "pool": str(pool),
        "tenant": tenant,
        "is_repeated": report.is_repeated,
        "quarantine": [{"line": line.line, "reason": line.reason} for line in shown],
    }
    emit("ingest", results, details, as_json=as_json)
    if bad:
        rest = "the others are in the pool" if bad < report.lines else f"is this really a {file_format} file?"
        say(f"{bad} of {report.lines} lines were quarantined with their reasons; {rest}")
        raise typer.Exit(1)
