"""``python -m benchmarks off-policy``: coverage of off-policy intervals on adaptive logs and on recorded
outcomes."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Quick, emit_and_exit
from upturn.cli import progress
from upturn.records import JsonValue


def bench_off_policy(
    *,
    logs: Annotated[int, typer.Option(min=20, help="Simulated logs per size and exploration floor.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    recording: Annotated[
        Path | None,
        typer.Option(help="CSV of recorded outcomes of several models; its lines are drawn instead."),
    ] = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Simulate logs of a learning policy, and count how often off-policy intervals hold the true value.

    With 1,000 logs it takes about a quarter of an hour. With --recording every log is a resample of the file's
    lines.
    """
    if recording is not None:
        _bench_recording(recording, logs, seed, is_quick=quick, as_json=as_json)
        return
    from benchmarks.routing.off_policy import CELLS, measure_coverage

    cells, logs = (CELLS[:1], 40) if quick else (CELLS, logs)
    with progress("logs", len(cells) * logs) as ticker:
        results = measure_coverage(cells, logs=logs, seed=seed, has_bars=not quick, on_done=ticker.advance)
    emit_and_exit("off-policy", results, {"logs": logs, "seed": seed}, as_json=as_json)


def _bench_recording(path: Path, logs: int, seed: int, *, is_quick: bool, as_json: bool) -> None:
    from benchmarks.routing.full_information import CELLS, measure_full_information
    from upturn.arbiter import read_recording

    cells, resamples = (CELLS[:1], 20) if is_quick else (CELLS, logs)
    read = read_recording(path)
    with progress("logs", len(cells) * resamples) as ticker:
        results = measure_full_information(
            read, cells, resamples=resamples, seed=seed, has_bars=not is_quick, on_done=ticker.advance
        )
    details: dict[str, JsonValue] = {
        "recording": path.name,
        "lines": len(read.rewards),
        "resamples": resamples,
        "seed": seed,
    }
    emit_and_exit("off-policy", results, details, as_json=as_json)
