"""``python -m benchmarks update``: speed of the update compared with TRL and with the machine."""

from pathlib import Path

from benchmarks.commands.options import AsJson, Only, Quick, Repetitions, Threads, emit_and_exit
from upturn.cli import say
from upturn.threads import usable_cores


def bench_update(  # noqa: PLR0917  # a command's parameters are its options
    reps: Repetitions = 5, only: Only = None, threads: Threads = None, quick: Quick = False, as_json: AsJson = False
) -> None:
    """Compare the update with TRL's on the same recorded rollouts: results first, then time and memory."""
    from benchmarks.measurement import QUICK, Bench, Sizes
    from benchmarks.update import bench_update as measure

    sizes = QUICK if quick else Sizes()
    bench = Bench(Path(), threads or usable_cores(), reps, sizes, has_bars=not quick, log=say)
    results, details = measure(bench, only or ())
    details = {"threads": bench.threads, "repetitions": reps, **details}
    emit_and_exit("update", results, details, as_json=as_json)
