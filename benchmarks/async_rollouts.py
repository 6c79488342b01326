"""Training with asynchronous rollouts (staleness 1) compared with synchronous training, on the same threads."""

from benchmarks.comparison import alternate, memory_ratio, result, speedup
from benchmarks.implementations import IterationTask
from benchmarks.measurement import Bench, Measurement
from benchmarks.worker import TUNED_ALLOCATOR, Worker

ASYNC_GRPO = "benchmarks.implementations.async_grpo:serve_runs"
TASKS, GROUP_SIZE, ITERATIONS = 24, 8, 6
"""As in ``upturn demo``."""


def measure_async_rollouts(bench: Bench) -> Measurement:
    """Speedup of a few iterations. The samples differ, but not their number and kind."""
    tasks, group_size, iterations = (TASKS, GROUP_SIZE, ITERATIONS) if bench.has_bars else (2, 2, 2)
    settings = IterationTask(tasks, group_size, iterations, bench.threads).settings()
    bench.log(f"ahead: {bench.repetitions} pairs of training with synchronous and asynchronous rollouts")
    with (
        Worker(ASYNC_GRPO, settings | {"staleness": 0}, bench.threads, TUNED_ALLOCATOR) as synchronous,
        Worker(ASYNC_GRPO, settings | {"staleness": 1}, bench.threads, TUNED_ALLOCATOR) as asynchronous,
    ):
        pairs = alternate(synchronous.step, asynchronous.step, bench.repetitions)
    results = (
        result("ahead_speedup_vs_in_turn", speedup(pairs), "x"),
        result("ahead_memory_vs_in_turn", memory_ratio(pairs), "share"),
    )
    return Measurement(
        results,
        {
            "tasks": tasks,
            "attempts": group_size,
            "iterations": iterations,
            "in_turn_seconds": [round(pair.baseline.seconds, 3) for pair in pairs],
            "ahead_seconds": [round(pair.candidate.seconds, 3) for pair in pairs],
            "in_turn_sampling_seconds": [round(pair.baseline.number("waited_seconds"), 3) for pair in pairs],
            "ahead_waited_seconds": [round(pair.candidate.number("waited_seconds"), 3) for pair in pairs],
            "in_turn_written_tokens": [pair.baseline.number("written_tokens") for pair in pairs],
            "ahead_written_tokens": [pair.candidate.number("written_tokens") for pair in pairs],
        },
    )
