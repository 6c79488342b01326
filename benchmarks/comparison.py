"""Two implementations that take turns, and the ratio of their times with its spread.

A machine's speed drifts by more than the differences of interest, so a ratio compares two consecutive steps, and
the order of the two alternates. Reported are the median of the pairs' ratios and their extremes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from benchmarks.worker import Response
from upturn.records import Result


class Pair(NamedTuple):
    """Two consecutive steps, one of each implementation."""

    baseline: Response
    candidate: Response


class Spread(NamedTuple):
    """A figure over repetitions: its median and extremes."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Bar:
    """The limit that a figure has to keep."""

    limit: float
    is_upper: bool = False
    """True = at most ``limit``; False = at least ``limit``."""

    @property
    def text(self) -> str:
        """``>= 5`` or ``<= 0.5``."""
        return f"{'<=' if self.is_upper else '>='} {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Whether the value keeps the limit; False for NaN."""
        return value <= self.limit if self.is_upper else value >= self.limit


def alternate(
    baseline: Callable[[], Response], candidate: Callable[[], Response], repetitions: int
) -> tuple[Pair, ...]:
    """One pair of steps per repetition; ``baseline`` is first in the first, third, … pair."""
    if repetitions < 1:
        raise ValueError(f"repetitions must be at least 1, got {repetitions!r}")
    pairs = []
    for index in range(repetitions):
        if index % 2 == 0:
            first = baseline()
            pairs.append(Pair(first, candidate()))
        else:
            first = candidate()
            pairs.append(Pair(baseline(), first))
    return tuple(pairs)


def spread(values: Sequence[float]) -> Spread:
    """Median and extremes of at least one value."""
    return Spread(median(values), min(values), max(values), len(values))


def speedup(pairs: Sequence[Pair]) -> Spread:
    """Seconds of the baseline divided by those of the candidate."""
    return spread([pair.baseline.seconds / pair.candidate.seconds for pair in pairs])


def memory_ratio(pairs: Sequence[Pair]) -> Spread:
    """Peak memory of the candidate divided by that of the baseline."""
    return spread([pair.candidate.peak_bytes / pair.baseline.peak_bytes for pair in pairs])


def result(name: str, figure: Spread | float, unit: str, bar: Bar | None = None) -> Result:
    """A row of the table. A plain number has no spread. ``bar``: None = the figure is only reported."""
    value, low, high, n = (figure, None, None, None) if isinstance(figure, float) else figure
    text, holds = (None, None) if bar is None else (bar.text, bar.holds(value))
    return Result(name, value, unit, low, high, n, text, holds)
