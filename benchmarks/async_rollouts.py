"""Training with asynchronous rollouts (staleness 1) compared with synchronous training, on the same threads."""

from benchmarks.comparison import alternate, memory_ratio, result, speedup
from benchmarks.implementations import IterationTask
from benchmarks.measurement import Measurement
from benchmarks.worker import TUNED_ALLOCATOR, Worker

ASYNC_GRPO = "benchmarks.implementations.async_grpo:serve_runs"
TASKS, GROUP_SIZE, ITERATIONS = 24, 8, 6
"""As in ``upturn demo``."""


def measure_async_rollouts(threads: int, repetitions: int, *, is_quick: bool) -> Measurement:
    """Speedup of a few iterations. Samples differ, in number and kind they are the same."""
    tasks, group_size, iterations = (2, 2, 2) if is_quick else (TASKS, GROUP_SIZE, ITERATIONS)
    settings = IterationTask(tasks, group_size, iterations, threads).settings()
    with (
        Worker(ASYNC_GRPO, settings | {"staleness": 0}, threads, TUNED_ALLOCATOR) as synchronous,
        Worker(ASYNC_GRPO, settings | {"staleness": 1}, threads, TUNED_ALLOCATOR) as asynchronous,
    ):
        pairs = alternate(synchronous.step, asynchronous.step, repetitions)
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
