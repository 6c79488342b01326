"""``python -m benchmarks attention``: speed of the backends of tree attention, and the memory of a mask."""

from benchmarks.commands.options import AsJson, Quick, Repetitions, Threads, emit_and_exit, new_bench


def bench_attention(
    reps: Repetitions = 5, threads: Threads = None, quick: Quick = False, as_json: AsJson = False
) -> None:
    """Time the backends of tree attention on the same trees, on a GPU where there is one."""
    from benchmarks.attention import bench_attention as measure

    bench = new_bench(reps, threads, is_quick=quick)
    emit_and_exit("attention", *measure(bench), as_json=as_json)
