"""``upturn pool import`` and ``log``."""

from pathlib import Path
from time import time
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath, Tenant
from upturn.cli.output import emit, print_message, progress
from upturn.errors import IngestError
from upturn.pool import Collector, ExportFile, Pool, import_export, location_of
from upturn.pool.access import record_act
from upturn.pool.answers import log_lines, logged_answer
from upturn.records import AdminAct, Result

_MAX_LINES_SHOWN = 20
"""Maximum number of quarantined lines to print; ``--json`` prints all."""


def import_records(
    file: Annotated[Path, typer.Argument(help="File that `upturn pool export` wrote.")],
    *,
    pool: PoolPath = POOL_PATH,
    as_json: AsJson = False,
) -> None:
    """Import the records of a file that `upturn pool export` wrote, as they were, for the tenant that it names.

    Creates the pool if it does not exist. Exits with 1 if lines were quarantined.
    """
    if not file.is_file():
        raise IngestError(f"there is no file {str(file)!r}; name one that exists")
    source = ExportFile(file)
    header = source.header
    total = source.check_content().lines  # before a pool is created
    with Pool.open(pool) as opened, progress("lines", total) as ticker:
        report = import_export(opened, source, ticker.advance)
    added, bad = report.added.total(), len(report.quarantined)
    if added:
        kind = "anonymised" if header.is_anonymised else "raw"
        why = f"{added} records of an export, {kind}"
        record_act(pool, AdminAct("command line", "pool import", file.name, time(), header.tenant, why))
    results = [
        Result("added", float(added), "records"),
        Result("known", float(report.known), "records"),
        Result("quarantined", float(bad), "lines", bar="<= 0", holds=bad == 0),
    ]
    shown = report.quarantined if as_json else report.quarantined[:_MAX_LINES_SHOWN]
    details = {
        "file": str(file),
        "pool": str(location_of(pool)),
        "tenant": header.tenant,
        "is_anonymised": header.is_anonymised,
        "is_repeated": report.is_repeated,
        "added_by_table": dict(sorted(report.added.items())),
        "quarantine": [{"line": line.line, "reason": line.reason} for line in shown],
    }
    emit("pool import", results, details, as_json=as_json)
    if bad:
        noun = "line was" if bad == 1 else "lines were"
        print_message(f"{bad} {noun} quarantined; the other records are in the pool")
        raise typer.Exit(1)


def log(
    file: Annotated[Path, typer.Argument(help="JSON lines, one object each: decision, trajectory or evaluation.")],
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Store routing decisions, executions and evaluations that were made elsewhere.

    A line has one of decision, trajectory and evaluation, and may have the task of the first two. Storing it again
    adds nothing. Exits with 1 if a line cannot be used; the others are stored.
    """
    with Pool.open(pool) as opened:
        logged = log_lines(file, Collector(opened, tenant=tenant), tenant=tenant)
    answer = logged_answer(logged, tenant=tenant)
    emit("pool log", answer.results, answer.details, as_json=as_json)
    if logged.refused:
        print_message(f"{len(logged.refused)} lines were refused; the others are in the pool")
        raise typer.Exit(1)
