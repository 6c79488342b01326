"""``python -m benchmarks rollout``: speed of multi-turn sampling compared with transformers."""

from benchmarks.commands.options import AsJson, Only, Quick, Repetitions, Threads, new_bench, run_measurements


def bench_rollout(  # noqa: PLR0917  # a command's parameters are its options
    reps: Repetitions = 5, only: Only = None, threads: Threads = None, quick: Quick = False, as_json: AsJson = False
) -> None:
    """Sample the same conversations with the local engine and with generate of transformers, and compare."""
    from benchmarks.rollout import bench_rollout as measure

    run_measurements("rollout", measure, new_bench(reps, threads, is_quick=quick), only, as_json=as_json)
