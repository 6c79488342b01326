"""One iteration of group-relative training, sampling included, compared with TRL's ``environment_factory``.

Both implementations sample rollouts of the shipped model on the same tasks of errands at temperature 1 with the
same limits, verify them with the same verifier and make one optimiser step. Their samples differ, so the number of
tokens and the mean reward are compared before the times.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from statistics import fmean

from benchmarks.comparison import Pair, alternate, result, speedup
from benchmarks.implementations import IterationTask
from benchmarks.measurement import Bench, Measurement
from benchmarks.trl_baseline import DEFAULT_MICRO_BATCH, describe_search, search_micro_batch
from benchmarks.worker import TUNED_ALLOCATOR, Worker
from upturn.errors import MeasurementError
from upturn.records import JsonValue

LIBRARY = "benchmarks.implementations.library_iteration:serve_iterations"
TRL = "benchmarks.implementations.trl_iteration:serve_iterations"
TASKS, GROUP_SIZE = 8, 8
QUICK_TASKS, QUICK_GROUP_SIZE = 2, 4
MICRO_BATCHES = (8, 16, 32, 64)
MAX_ITERATIONS = 200
"""Iterations with tasks; far above what is measured."""
STANDARD_ERRORS = 5.0
"""Allowed difference between the implementations: by chance it is exceeded once in a million times."""


def measure_iteration(bench: Bench) -> Measurement:
    """Speedup over TRL with its default settings (checkpointing, batch 8) and with its best settings.

    Best settings: no checkpointing, the best micro-batch, the tuned allocator for both.
    """
    tasks, group_size = (TASKS, GROUP_SIZE) if bench.has_bars else (QUICK_TASKS, QUICK_GROUP_SIZE)
    task = IterationTask(tasks, group_size, MAX_ITERATIONS, bench.threads)
    with ExitStack() as stack:
        bench.log("iteration: TRL with its default settings")
        trl = stack.enter_context(_start_trl(task, DEFAULT_MICRO_BATCH, checkpointing=True, allocator={}))
        library = stack.enter_context(Worker(LIBRARY, task.settings(), task.threads))
        default = _pair(bench, task, trl, library)
    with ExitStack() as stack:
        candidates = search_micro_batch(
            lambda size: _start_trl(task, size, checkpointing=False, allocator=TUNED_ALLOCATOR),
            [size for size in MICRO_BATCHES if tasks * group_size % size == 0],
            stack,
            on_try=lambda size: bench.log(f"iteration: search for TRL's best micro-batch, {size}"),
        )
        library = stack.enter_context(Worker(LIBRARY, task.settings(), task.threads, TUNED_ALLOCATOR))
        library.step()  # TRL's worker has made two: in each pair both sample on the same tasks
        best = _pair(bench, task, candidates[0].worker, library)
    results = (
        result("iteration_speedup_vs_trl_default", speedup(default), "×", bench.bar(3.0)),
        result("iteration_speedup_vs_trl_best", speedup(best), "×", bench.bar(3.0)),
    )
    details: dict[str, JsonValue] = {
        "tasks": tasks,
        "attempts": group_size,
        "as_it_comes": _describe(default),
        "at_its_best": _describe(best) | describe_search(candidates),
    }
    return Measurement(results, details)


def _start_trl(
    task: IterationTask, micro_batch: int, *, checkpointing: bool, allocator: Mapping[str, str]
) -> Worker:
    options: dict[str, JsonValue] = {"micro_batch": micro_batch, "gradient_checkpointing": checkpointing}
    return Worker(TRL, task.settings() | options, task.threads, allocator)


def _pair(bench: Bench, task: IterationTask, trl: Worker, library: Worker) -> tuple[Pair, ...]:
    """Pairs of iterations. Raises MeasurementError when rewards or tokens differ by more than chance."""
    bench.log(f"iteration: {bench.repetitions} alternating pairs of iterations")
    pairs = alternate(trl.step, library.step, bench.repetitions)
    allowed = allowed_difference(bench.repetitions * task.tasks * task.group_size)
    trl_reward, our_reward = _means(pairs, "reward")
    trl_tokens, our_tokens = _means(pairs, "written_tokens")
    if abs(our_reward - trl_reward) > allowed or abs(our_tokens / trl_tokens - 1) > allowed:
        raise MeasurementError(
            f"the two implementations do not sample alike: mean reward {our_reward:.3g} and {our_tokens:.4g} "
            f"tokens per iteration with the library, {trl_reward:.3g} and {trl_tokens:.4g} with TRL; chance "
            f"explains a difference of {allowed:.2g} of the reward and of {allowed:.0%} of the tokens"
        )
    return pairs


def allowed_difference(rollouts: int) -> float:
    """Largest difference by chance between two means over so many rollouts each.

    Absolute for rewards in [0, 1], whose standard deviation is at most a half; relative for lengths whose standard
    deviation is half of their mean.
    """
    return STANDARD_ERRORS * 0.5 * math.sqrt(2 / rollouts)


def _means(pairs: Sequence[Pair], name: str) -> list[float]:
    """The mean over TRL's iterations and that over the library's."""
    return [fmean(response.number(name) for response in responses) for responses in zip(*pairs, strict=True)]


def _describe(pairs: Sequence[Pair]) -> dict[str, JsonValue]:
    trl_reward, our_reward = _means(pairs, "reward")
    return {
        "trl_seconds": [round(pair.baseline.seconds, 3) for pair in pairs],
        "our_seconds": [round(pair.candidate.seconds, 3) for pair in pairs],
        "our_sampling_seconds": [round(pair.candidate.number("sampling_seconds"), 3) for pair in pairs],
        "trl_written_tokens": [pair.baseline.number("written_tokens") for pair in pairs],
        "our_written_tokens": [pair.candidate.number("written_tokens") for pair in pairs],
        "trl_reward": trl_reward,
        "our_reward": our_reward,
    }
