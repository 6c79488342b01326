"""``python -m benchmarks update``: speed of the update compared with TRL and with the machine."""

from benchmarks.commands.options import AsJson, Only, Quick, Repetitions, Threads, new_bench, run_measurements


def bench_update(  # noqa: PLR0917  # a command's parameters are its options
    reps: Repetitions = 5, only: Only = None, threads: Threads = None, quick: Quick = False, as_json: AsJson = False
) -> None:
    """Compare the update with TRL's on the same recorded rollouts: results first, then time and memory."""
    from benchmarks.update import bench_update as measure

    run_measurements("update", measure, new_bench(reps, threads, is_quick=quick), only, as_json=as_json)
