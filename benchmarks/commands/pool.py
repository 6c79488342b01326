"""``python -m benchmarks pool``: speed and bytes of the pool, on SQLite and PostgreSQL."""

import os
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Folder, Only, Quick, emit_and_exit
from upturn.cli import print_message, resume_hint
from upturn.records import JsonValue


def bench_pool(  # noqa: PLR0913  a command's parameters are its options
    *,
    rows: Annotated[int, typer.Option(min=2_000, help="Trajectories of the large pool.")] = 1_000_000,
    kills: Annotated[int, typer.Option(min=1, help="How often a writer is killed.")] = 25,
    reps: Annotated[int, typer.Option(min=1, help="Repetitions per figure.")] = 3,
    only: Only = None,
    backend: Annotated[
        list[str] | None,
        typer.Option("--backend", help="sqlite or postgresql; repeatable. Default: all."),
    ] = None,
    folder: Folder = Path("runs/bench-pool"),
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Measure storing, batches, statistics, growth, the bytes of a token, and what kills and restarts lose.

    PostgreSQL is measured where it is installed, or at UPTURN_TEST_POSTGRES_URL. Each measurement of a database is
    written to the folder when it is done, and not repeated there. Storing a million rows takes most of the time.
    """
    from benchmarks.measurement import check_names, combine
    from benchmarks.pool.backends import backends
    from benchmarks.pool.measure import MEASUREMENTS, measure
    from benchmarks.pool.plan import QUICK, Plan

    check_names(only or (), MEASUREMENTS)
    plan = replace(QUICK, log=print_message)
    if not quick:
        plan = Plan(
            rows=rows,
            early_rows=rows // 10,
            window=rows // 50,
            kills=kills,
            repetitions=reps,
            log=print_message,
        )
    again = f"python -m benchmarks pool --folder {quote(str(folder))}, and the other options as before"
    with resume_hint(again), backends() as available:
        check_names(backend or (), available)
        chosen = [name for name in available if not backend or name in backend]
        wanted = [part for part in MEASUREMENTS if not only or part in only]
        measured = measure(plan, folder, wanted, {name: available[name] for name in chosen})
    results, details = combine(measured)
    shown: dict[str, JsonValue] = {"backends": ", ".join(chosen), "load": round(os.getloadavg()[0], 2)}
    emit_and_exit("pool", results, shown | details, as_json=as_json)
