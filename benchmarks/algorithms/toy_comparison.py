"""Every algorithm on toys with a known optimum, with several seeds, the lowest of which counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.algorithms.toy import TOYS, Toy
from benchmarks.algorithms.toy_algorithms import ALGORITHMS
from benchmarks.algorithms.toy_training import ToyAlgorithm, ToyResult, ToyRun
from benchmarks.comparison import Bar, Spread, result
from benchmarks.result_cache import CacheKey, ResultCache
from upturn.records import JsonValue, Result

MIN_REWARD = 0.95
"""Share of the optimum that every seed has to reach."""


@dataclass(frozen=True, slots=True)
class ToySettings:
    """Everything that determines a result, except algorithm, toy and seed."""

    sizes: Mapping[str, int] = field(default_factory=lambda: {"bandit": 8, "key_door": 3, "language": 3, "lamp": 6})
    """By toy: arms, colours, letters, buttons."""
    length: int | None = None
    """Iterations or epochs, with small groups; None = as each algorithm is configured."""


QUICK = ToySettings({"bandit": 3, "lamp": 3}, length=2)
"""A smoke test of all algorithms."""


class ToyCase(NamedTuple):
    """An algorithm on a toy."""

    toy: str
    algorithm: str


def toy_cases(settings: ToySettings) -> list[ToyCase]:
    """All cases, toy by toy."""
    return [
        ToyCase(toy, name)
        for toy in settings.sizes
        for name, algorithm in ALGORITHMS.items()
        if toy in algorithm.toys
    ]


def measure_toys(
    cache: ResultCache, seeds: Sequence[int], settings: ToySettings, *, on_done: Callable[[], None] = lambda: None
) -> Mapping[ToyCase, Sequence[ToyResult]]:
    """Results by seed of all cases; calls ``on_done`` after each of seeds · cases.

    Uses torch with the threads that the caller has set.
    """
    results: dict[ToyCase, list[ToyResult]] = {}
    for case in toy_cases(settings):
        algorithm = ALGORITHMS[case.algorithm]
        algorithm = algorithm if settings.length is None else algorithm.shortened(settings.length)
        toy = TOYS[case.toy](settings.sizes[case.toy])
        results[case] = []
        for seed in seeds:
            key = CacheKey(case.toy, case.algorithm, seed, algorithm.options)
            results[case].append(cache.get(key, ToyResult, partial(_run, algorithm, toy, seed)))
            on_done()
    return results


def _run(algorithm: ToyAlgorithm, toy: Toy, seed: int) -> ToyResult:
    with TemporaryDirectory() as name:
        return algorithm.measure(ToyRun(toy, seed, Path(name)))


def toy_results(results: Mapping[ToyCase, Sequence[ToyResult]], *, has_bars: bool) -> list[Result]:
    """The lowest reward of each case; the interval is the range over the seeds."""
    bar = Bar(MIN_REWARD) if has_bars else None
    rows = []
    for case, seeds in results.items():
        rewards = [seed.reward for seed in seeds]
        lowest = Spread(min(rewards), min(rewards), max(rewards), len(rewards))
        rows.append(result(f"toys_{case.toy}_{case.algorithm}", lowest, "of the optimum", bar))
    return rows


def toy_details(results: Mapping[ToyCase, Sequence[ToyResult]]) -> dict[str, JsonValue]:
    """By toy and algorithm, means over the seeds of initial reward, sampled tokens and processor seconds."""
    details: dict[str, dict[str, JsonValue]] = {}
    for case, seeds in results.items():
        details.setdefault(case.toy, {})[case.algorithm] = {
            "start": round(fmean(seed.start for seed in seeds), 4),
            "sampled_tokens": round(fmean(seed.tokens for seed in seeds)),
            "processor_seconds": round(fmean(seed.seconds for seed in seeds), 2),
        }
    return dict(details)
