"""``python -m benchmarks off-policy``: coverage of off-policy intervals on adaptive logs."""

from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Quick, emit_and_exit
from upturn.cli import progress


def bench_off_policy(
    logs: Annotated[int, typer.Option(min=20, help="Simulated logs per size and exploration floor.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Simulate logs of a learning policy, and count how often off-policy intervals hold the true value.

    With 1,000 logs it takes about a quarter of an hour.
    """
    from benchmarks.off_policy import CELLS, measure_coverage

    cells, logs = (CELLS[:1], 40) if quick else (CELLS, logs)
    with progress("logs", len(cells) * logs) as ticker:
        results = measure_coverage(cells, logs=logs, seed=seed, has_bars=not quick, on_done=ticker.advance)
    emit_and_exit("off-policy", results, {"logs": logs, "seed": seed}, as_json=as_json)
