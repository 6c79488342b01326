"""``python -m benchmarks pool``: speed and bytes of the pool, on SQLite and PostgreSQL."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Only, Quick, emit_and_exit
from upturn.cli import print_message
from upturn.records import JsonValue


def bench_pool(
    *,
    rows: Annotated[int, typer.Option(min=2_000, help="Trajectories of the large pool.")] = 1_000_000,
    reps: Annotated[int, typer.Option(min=1, help="Repetitions per figure.")] = 5,
    only: Only = None,
    backend: Annotated[
        list[str] | None,
        typer.Option("--backend", help="sqlite or postgresql; repeatable. Default: all."),
    ] = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Measure storing, batches, statistics, growth and the bytes of a token.

    PostgreSQL is measured where it is installed, or at UPTURN_TEST_POSTGRES_URL. Storing a million rows takes long;
    fewer show the same figures but those of the large pool.
    """
    from benchmarks.measurement import check_names, combine
    from benchmarks.pool.backends import backends
    from benchmarks.pool.measure import MEASUREMENTS
    from benchmarks.pool.plan import QUICK, Plan

    check_names(only or (), MEASUREMENTS)
    plan = replace(QUICK, log=print_message)
    if not quick:
        plan = Plan(rows=rows, early_rows=rows // 10, window=rows // 50, repetitions=reps, log=print_message)
    with backends() as available:
        check_names(backend or (), available)
        chosen = [name for name in available if not backend or name in backend]
        measured = {
            f"{name} {part}": MEASUREMENTS[part](plan, name, available[name])
            for part in MEASUREMENTS
            if not only or part in only
            for name in chosen
        }
    results, details = combine(measured)
    shown: dict[str, JsonValue] = {"backends": ", ".join(chosen), "load": round(os.getloadavg()[0], 2)}
    emit_and_exit("pool", results, shown | details, as_json=as_json)
