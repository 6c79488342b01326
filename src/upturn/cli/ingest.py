"""``upturn ingest``: recorded conversations, and feedback on what is there, into the pool."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.output import emit, say
from upturn.errors import IngestError
from upturn.pool import IngestOptions, Pool, check_source, ingest_feedback
from upturn.pool import ingest as take_in
from upturn.records import Result

_LISTED = 20
"""Quarantined lines that are shown to people; ``--json`` gives all."""


def ingest(  # noqa: PLR0913 - a command's parameters are its options
    file: Annotated[Path, typer.Argument(help="The file with recorded conversations.")],
    *,
    file_format: Annotated[
        str, typer.Option("--format", help="tau-bench (a JSON array), chat or feedback (JSON lines).")
    ],
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
    """Take recorded conversations, or feedback on what is there, into the pool.

    Exit code 1 when lines had to be quarantined.
    """
    if not file.is_file():
        raise IngestError(f"there is no file {str(file)!r}; name one that exists")
    if file_format == "feedback":
        _feedback(file, pool, tenant, given={"--family": family, "--agent": agent}, as_json=as_json)
        return
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
    _end(bad, report.lines, file_format)


def _feedback(file: Path, pool: Path, tenant: str, *, given: Mapping[str, str | None], as_json: bool) -> None:
    useless = [name for name, value in given.items() if value is not None]
    if useless:
        raise IngestError(
            f"{' and '.join(useless)} would do nothing with --format feedback, which speaks of what the pool holds "
            "already; leave it out"
        )
    if not pool.is_file():
        raise IngestError(f"there is no pool {str(pool)!r} that feedback could speak of; name one with --pool")
    with Pool.open(pool) as opened:
        report = ingest_feedback(opened, file, tenant=tenant)
    bad = len(report.quarantined)
    results = [
        Result("lines", float(report.lines)),
        Result("added", float(report.added), "feedback"),
        Result("known", float(report.known), "feedback"),
        Result("quarantined", float(bad), "lines", bar="<= 0", holds=bad == 0),
    ]
    shown = report.quarantined if as_json else report.quarantined[:_LISTED]
    details = {
        "file": str(file),
        "pool": str(pool),
        "tenant": tenant,
        "quarantine": [{"line": line.line, "reason": line.reason} for line in shown],
    }
    emit("ingest", results, details, as_json=as_json)
    _end(bad, report.lines, "feedback")


def _end(bad: int, lines: int, file_format: str) -> None:
    """Exit code 1 where lines were quarantined."""
    if bad:
        rest = "the others are in the pool" if bad < lines else f"is this really a {file_format} file?"
        say(f"{bad} of {lines} lines were quarantined with their reasons; {rest}")
        raise typer.Exit(1)
