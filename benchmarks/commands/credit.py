"""``python -m benchmarks credit``: which estimators find the turn that mattered, and who learns faster by them."""

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from upturn.cli import emit, progress, resume_hint
from upturn.errors import ConfigError
from upturn.threads import usable_cores


def bench_credit(  # noqa: PLR0917  # a command's parameters are its options
    part: Annotated[
        list[str] | None, typer.Option(help="Measure this part only: key_door or errands; may be given twice.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Of each part; left out = 20 for key_door, 5 for errands.")
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="Keeps measurements; what is there already is not measured again.")
    ] = Path("runs/bench-credit"),
    pictures: Annotated[Path | None, typer.Option(help="Folder to draw two pictures into.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes that show that it works.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare estimators of turn credit: their agreement with the truth, and tokens sampled to 80 % success.

    The key-door world takes a minute or two. Errands take about an hour; stopped, it goes on where it was.
    """
    from benchmarks.credit import PARTS, CreditBench, measure, quick_bench

    unknown = [name for name in part or () if name not in PARTS]
    if unknown:
        raise ConfigError([f"--part takes {' or '.join(PARTS)}, got {name!r}" for name in unknown])
    chosen = tuple(name for name in PARTS if not part or name in part)
    bench = quick_bench(folder, chosen) if quick else CreditBench(folder, chosen)
    bench = bench if seeds is None else bench.with_seeds(seeds)
    bench = replace(bench, threads=usable_cores())
    with (
        resume_hint(f"python -m benchmarks credit --folder {quote(str(folder))}, and the other options as before"),
        progress("measurements", bench.steps) as ticker,
    ):
        found = measure(bench, on_done=ticker.advance)
    if pictures is not None:
        from benchmarks.credit import save_pictures

        save_pictures(found.parts, pictures)
    details = {
        "folder": str(folder),
        "seeds": bench.seeds,
        "threads": bench.threads,
        "sizes": "quick" if quick else "full",
        **found.details,
    }
    emit("benchmarks credit", found.results, details, as_json=as_json)
