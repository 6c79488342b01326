"""Training with sampling ahead (staleness 1) against training in turn, on the same threads altogether."""

from benchmarks.comparison import alternate, memory_ratio, result, speedup
from benchmarks.implementations import PracticeTask
from benchmarks.measurement import Measured
from benchmarks.worker import TUNED_ALLOCATOR, Worker

AHEAD_SIDE = "benchmarks.implementations.async_grpo:ahead_side"
TASKS, ATTEMPTS, ITERATIONS = 24, 8, 6
"""As the demo practises."""


def measure_ahead(threads: int, repetitions: int, *, is_quick: bool) -> Measured:
    """How many times faster so many iterations are; they draw other samples, of the same number and kind."""
    task = PracticeTask(
        2 if is_quick else TASKS, 2 if is_quick else ATTEMPTS, 2 if is_quick else ITERATIONS, threads
    )
    with (
        Worker(AHEAD_SIDE, task.settings() | {"staleness": 0}, threads, TUNED_ALLOCATOR) as in_turn,
        Worker(AHEAD_SIDE, task.settings() | {"staleness": 1}, threads, TUNED_ALLOCATOR) as ahead,
    ):
        pairs = alternate(in_turn.step, ahead.step, repetitions)
    results = (
        result("ahead_speedup_vs_in_turn", speedup(pairs), "x"),
        result("ahead_memory_vs_in_turn", memory_ratio(pairs), "share"),
    )
    return Measured(
        results,
        {
            "tasks": task.tasks,
            "attempts": task.attempts,
            "iterations": task.iterations,
            "in_turn_seconds": [round(pair.theirs.seconds, 3) for pair in pairs],
            "ahead_seconds": [round(pair.ours.seconds, 3) for pair in pairs],
            "in_turn_sampling_seconds": [round(pair.theirs.number("waited_seconds"), 3) for pair in pairs],
            "ahead_waited_seconds": [round(pair.ours.number("waited_seconds"), 3) for pair in pairs],
            "in_turn_written_tokens": [pair.theirs.number("written_tokens") for pair in pairs],
            "ahead_written_tokens": [pair.ours.number("written_tokens") for pair in pairs],
        },
    )
