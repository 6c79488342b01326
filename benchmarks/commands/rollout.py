"""``python -m benchmarks rollout``: speed of multi-turn sampling compared with transformers."""

from benchmarks.commands.options import AsJson, Only, Quick, Repetitions, Threads, emit_and_exit
from upturn.cli import say
from upturn.threads import usable_cores


def bench_rollout(  # noqa: PLR0917  # a command's parameters are its options
    reps: Repetitions = 5, only: Only = None, threads: Threads = None, quick: Quick = False, as_json: AsJson = False
) -> None:
    """Sample the same conversations with the local engine and with generate of transformers, and compare."""
    from benchmarks.rollout import RolloutBench
    from benchmarks.rollout import bench_rollout as measure

    bench = RolloutBench(threads or usable_cores(), reps, quick, say)
    results, details = measure(bench, only or ())
    details = {"threads": bench.threads, "repetitions": reps, **details}
    emit_and_exit("rollout", results, details, as_json=as_json)
