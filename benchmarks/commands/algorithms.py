"""``python -m benchmarks algorithms``: success, cost and code size of each algorithm."""

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Folder, Quick, emit_and_exit, select_parts
from upturn.cli import progress, resume_hint
from upturn.threads import usable_cores


def bench_algorithms(  # noqa: PLR0917  # a command's parameters are its options
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="Run this part only: toys, losses, errands, rft, processes, workers or size; repeatable."
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of each part; omit for 5 in toys, 3 in errands and rft.")
    ] = None,
    folder: Folder = Path("runs/bench-algorithms"),
    pictures: Annotated[
        Path | None, typer.Option(help="Folder for plots of training in errands and of training on few examples.")
    ] = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Compare all algorithms: on toys with known answers, with TRL, in errands, in several processes.

    Toys take about half an hour, errands and rft hours. An interrupted run resumes where it stopped. The part
    losses needs TRL, workers needs Ray: without them their row says so.
    """
    from benchmarks.algorithms.bench import PARTS, AlgorithmsBench, measure, quick_bench, require
    from benchmarks.algorithms.plots import save_plots

    bench = (quick_bench if quick else AlgorithmsBench)(folder, select_parts(PARTS, part))
    bench = bench if seeds is None else bench.with_seeds(seeds)
    bench = replace(bench, threads=usable_cores())
    if part:
        require(bench.parts)
    with (
        resume_hint(
            f"python -m benchmarks algorithms --folder {quote(str(folder))}, and the other options as before"
        ),
        progress("measurements", bench.steps) as ticker,
    ):
        measurement = measure(bench, on_done=ticker.advance)
    if pictures is not None:
        save_plots(measurement.runs, measurement.rft, pictures)
    details = {
        "folder": str(folder),
        "seeds": bench.seeds,
        "threads": bench.threads,
        "sizes": "quick" if quick else "full",
        **measurement.details,
    }
    emit_and_exit("algorithms", measurement.results, details, as_json=as_json)
