"""One whole iteration of group-relative training, sampling included, against TRL with ``environment_factory``.

Both sides let the shipped model attempt the same tasks of errands at temperature 1 with the same limits, judge
with the same verifier and make one optimiser step. They draw different samples, so what is compared before the
ratio is believed is how much was sampled and how much was earned.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from statistics import fmean
from typing import NamedTuple

from benchmarks.comparison import Pair, alternate, result, speedup
from benchmarks.implementations import PracticeTask
from benchmarks.measurement import Bench, Measured
from benchmarks.trl_baseline import DEFAULT_MICRO_BATCH, Candidate, described_search, search
from benchmarks.worker import TUNED_ALLOCATOR, Worker
from upturn.errors import MeasurementError
from upturn.records import JsonValue

LIBRARY_SIDE = "benchmarks.implementations.library_iteration:practice_side"
TRL_SIDE = "benchmarks.implementations.trl_iteration:practice_side"
TASKS, ATTEMPTS = 8, 8
QUICK_TASKS, QUICK_ATTEMPTS = 2, 4
MICRO_BATCHES = (8, 16, 32, 64)
MOST_ITERATIONS = 200
"""That a side has tasks for; far above what is measured."""
SPREADS = 5.0
"""Standard errors that the sides may differ by: by chance they do once in a million times."""


def measure_iteration(bench: Bench) -> Measured:
    """TRL as it comes (checkpointing, batch 8) and at its best (none, best batch, allocator tuned for both)."""
    small = not bench.has_bars
    task = PracticeTask(
        QUICK_TASKS if small else TASKS, QUICK_ATTEMPTS if small else ATTEMPTS, MOST_ITERATIONS, bench.threads
    )
    with ExitStack() as stack:
        bench.say("iteration: TRL as it comes")
        theirs = stack.enter_context(_trl(task, DEFAULT_MICRO_BATCH, checkpointing=True, allocator={}))
        ours = stack.enter_context(_library(task, allocator={}))
        default = _pairs(bench, task, theirs, ours)
    with ExitStack() as stack:
        candidates = _best_trl(bench, task, stack)
        ours = stack.enter_context(_library(task, allocator=TUNED_ALLOCATOR))
        ours.step()  # TRL's process has made two: in each pair both attempt the same tasks
        best = _pairs(bench, task, candidates[0].worker, ours)
    results = (
        result("iteration_speedup_vs_trl_default", speedup(default), "×", bench.bar(3.0)),
        result("iteration_speedup_vs_trl_best", speedup(best), "×", bench.bar(3.0)),
    )
    details: dict[str, JsonValue] = {
        "tasks": task.tasks,
        "attempts": task.attempts,
        "as_it_comes": _described(default),
        "at_its_best": _described(best) | described_search(candidates),
    }
    return Measured(results, details)


def _trl(task: PracticeTask, micro_batch: int, *, checkpointing: bool, allocator: Mapping[str, str]) -> Worker:
    own: dict[str, JsonValue] = {"micro_batch": micro_batch, "gradient_checkpointing": checkpointing}
    return Worker(TRL_SIDE, task.settings() | own, task.threads, allocator)


def _library(task: PracticeTask, *, allocator: Mapping[str, str]) -> Worker:
    return Worker(LIBRARY_SIDE, task.settings(), task.threads, allocator)


def _best_trl(bench: Bench, task: PracticeTask, stack: ExitStack) -> list[Candidate]:
    """TRL with each micro-batch, by seconds an iteration."""
    return search(
        lambda size: _trl(task, size, checkpointing=False, allocator=TUNED_ALLOCATOR),
        [each for each in MICRO_BATCHES if task.tasks * task.attempts % each == 0],
        stack,
        on_try=lambda size: bench.say(f"iteration: TRL's best micro-batch, trying {size}"),
    )


def _pairs(bench: Bench, task: PracticeTask, theirs: Worker, ours: Worker) -> tuple[Pair, ...]:
    """Raises MeasurementError when the sides turn out to have done different things."""
    bench.say(f"iteration: {bench.repetitions} alternating iterations of each side")
    pairs = alternate(theirs.step, ours.step, bench.repetitions)
    allowed = allowed_difference(bench.repetitions * task.tasks * task.attempts)
    rewards, tokens = _means(pairs, "reward"), _means(pairs, "written_tokens")
    if abs(rewards.ours - rewards.theirs) > allowed or abs(tokens.ours / tokens.theirs - 1) > allowed:
        raise MeasurementError(
            f"the two sides do not sample alike: mean reward {rewards.ours:.3g} and {tokens.ours:.4g} tokens an "
            f"iteration with the library, {rewards.theirs:.3g} and {tokens.theirs:.4g} with TRL; chance explains a "
            f"difference of {allowed:.2g} of the reward and of {allowed:.0%} of the tokens"
        )
    return pairs


def allowed_difference(attempts: int) -> float:
    """Between two means over so many attempts each.

    Of rewards in [0, 1], whose spread is at most a half; as a share, of lengths whose spread is half of their mean.
    """
    return SPREADS * 0.5 * math.sqrt(2 / attempts)


class _Means(NamedTuple):
    theirs: float
    ours: float


def _means(pairs: Sequence[Pair], name: str) -> _Means:
    return _Means(
        fmean(pair.theirs.number(name) for pair in pairs), fmean(pair.ours.number(name) for pair in pairs)
    )


def _described(pairs: Sequence[Pair]) -> dict[str, JsonValue]:
    return {
        "trl_seconds": [round(pair.theirs.seconds, 3) for pair in pairs],
        "our_seconds": [round(pair.ours.seconds, 3) for pair in pairs],
        "our_sampling_seconds": [round(pair.ours.number("sampling_seconds"), 3) for pair in pairs],
        "trl_written_tokens": [pair.theirs.number("written_tokens") for pair in pairs],
        "our_written_tokens": [pair.ours.number("written_tokens") for pair in pairs],
        "trl_reward": _means(pairs, "reward").theirs,
        "our_reward": _means(pairs, "reward").ours,
    }
