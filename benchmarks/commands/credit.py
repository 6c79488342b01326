"""``python -m benchmarks credit``: accuracy of turn-credit estimators, and the training speed with each."""

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Folder, Quick, emit_and_exit, select_parts
from upturn.cli import progress, resume_hint
from upturn.threads import usable_cores


def bench_credit(  # noqa: PLR0917  # a command's parameters are its options
    part: Annotated[
        list[str] | None, typer.Option(help="Run this part only: key_door or errands; repeatable.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of each part; omit for 20 in key_door, 5 in errands.")
    ] = None,
    folder: Folder = Path("runs/bench-credit"),
    pictures: Annotated[Path | None, typer.Option(help="Folder for two plots.")] = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Compare estimators of turn credit: their agreement with the truth, and tokens sampled to 80 % success.

    The key-door world takes a minute or two, errands about an hour. An interrupted run resumes where it stopped.
    """
    from benchmarks.credit import PARTS, CreditBench, measure, quick_bench, save_plots

    bench = (quick_bench if quick else CreditBench)(folder, select_parts(PARTS, part))
    bench = bench if seeds is None else bench.with_seeds(seeds)
    bench = replace(bench, threads=usable_cores())
    with (
        resume_hint(f"python -m benchmarks credit --folder {quote(str(folder))}, and the other options as before"),
        progress("measurements", bench.steps) as ticker,
    ):
        measurement = measure(bench, on_done=ticker.advance)
    if pictures is not None:
        save_plots(measurement.parts, pictures)
    details = {
        "folder": str(folder),
        "seeds": bench.seeds,
        "threads": bench.threads,
        "sizes": "quick" if quick else "full",
        **measurement.details,
    }
    emit_and_exit("credit", measurement.results, details, as_json=as_json)
