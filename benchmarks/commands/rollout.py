"""``python -m benchmarks rollout``: how fast multi-turn attempts are sampled, against transformers."""

from typing import Annotated

import typer

from upturn.cli import emit, print_message
from upturn.threads import usable_cores


def bench_rollout(  # noqa: PLR0917  # a command's parameters are its options
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
    """Sample the same conversations with the local engine and with generate of transformers, and compare."""
    from benchmarks.rollout import RolloutBench
    from benchmarks.rollout import bench_rollout as measure

    bench = RolloutBench(threads or usable_cores(), reps, quick, print_message)
    results, details = measure(bench, only or ())
    emit("benchmarks rollout", results, {"threads": bench.threads, "repetitions": reps, **details}, as_json=as_json)
    if any(result.holds is False for result in results):
        raise typer.Exit(1)
