"""``python -m benchmarks algorithms``: what each way of learning reaches, costs and saves."""

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from upturn.cli import emit, progress, resume_hint
from upturn.errors import ConfigError
from upturn.threads import usable_cores


def bench_algorithms(  # noqa: PLR0917  # a command's parameters are its options
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure this part only: toys, losses, errands, rft, processes, workers or size; may be given "
            "several times."
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Of each part; left out = 5 for toys, 3 for errands and rft.")
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="Keeps measurements; what is there already is not measured again.")
    ] = Path("runs/bench-algorithms"),
    pictures: Annotated[
        Path | None, typer.Option(help="Folder to draw the courses in errands and the few-examples curve into.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes that show that it works; no bars.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare every way of learning: on toys with known answers, with TRL, in errands, out of one process.

    Toys take about half an hour, errands and rft hours; stopped, it goes on where it was. The part losses needs
    TRL, workers needs Ray: where they are missing, the row says so.
    """
    from benchmarks.algorithms import PARTS, AlgorithmsBench, check, measure, quick_bench

    unknown = [name for name in part or () if name not in PARTS]
    if unknown:
        raise ConfigError([f"--part takes {', '.join(PARTS)}; got {name!r}" for name in unknown])
    chosen = tuple(name for name in PARTS if not part or name in part)
    bench = quick_bench(folder, chosen) if quick else AlgorithmsBench(folder, chosen)
    bench = bench if seeds is None else bench.with_seeds(seeds)
    bench = replace(bench, threads=usable_cores())
    if part:
        check(bench)
    with (
        resume_hint(
            f"python -m benchmarks algorithms --folder {quote(str(folder))}, and the other options as before"
        ),
        progress("measurements", bench.steps) as ticker,
    ):
        found = measure(bench, on_done=ticker.advance)
    if pictures is not None:
        from benchmarks.algorithms import save_pictures

        save_pictures(found.courses, found.rft, pictures)
    details = {
        "folder": str(folder),
        "seeds": bench.seeds,
        "threads": bench.threads,
        "sizes": "quick" if quick else "full",
        **found.details,
    }
    emit("benchmarks algorithms", found.results, details, as_json=as_json)
    if any(result.holds is False for result in found.results):
        raise typer.Exit(1)
