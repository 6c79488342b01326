"""``python -m benchmarks update``: how fast the update is, against TRL and against the machine."""

from pathlib import Path
from typing import Annotated

import typer

from upturn.cli import emit, print_message
from upturn.threads import usable_cores


def bench_update(  # noqa: PLR0917  # a command's parameters are its options
    reps: Annotated[int, typer.Option(min=1, help="Alternating repetitions behind each figure.")] = 5,
    only: Annotated[
        list[str] | None, typer.Option(help="Run this measurement only; may be given several times.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of each side; left out = one per usable core.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes that show that it works; no bars.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare the update with TRL's on the same recorded rollouts: results first, then time and memory."""
    from benchmarks.measurement import QUICK, Bench, Sizes
    from benchmarks.update import bench_update as measure

    bench = Bench(
        folder=Path(),
        threads=threads or usable_cores(),
        repetitions=reps,
        sizes=QUICK if quick else Sizes(),
        has_bars=not quick,
        say=print_message,
    )
    results, details = measure(bench, only or ())
    emit("benchmarks update", results, {"threads": bench.threads, "repetitions": reps, **details}, as_json=as_json)
    if any(result.holds is False for result in results):
        raise typer.Exit(1)
