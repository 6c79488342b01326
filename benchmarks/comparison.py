"""Two sides that take turns, and the ratio of their times with its spread.

A machine's speed drifts by more than the differences of interest, so a ratio is taken of two steps made one right
after the other, and which side begins alternates. Reported are the median of the pairs' ratios and their extremes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from benchmarks.worker import Made
from upturn.records import Result


class Pair(NamedTuple):
    """One step of each side, made one right after the other."""

    theirs: Made
    ours: Made


class Spread(NamedTuple):
    """A figure over repetitions: its median and extremes."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure has to reach."""

    limit: float
    is_upper: bool = False
    """True = the figure may be at most ``limit``; False = must be at least."""

    @property
    def text(self) -> str:
        """``>= 5`` or ``<= 0.5``."""
        return f"{'<=' if self.is_upper else '>='} {self.limit:g}"

    def holds(self, value: float) -> bool:
        """False for NaN."""
        return value <= self.limit if self.is_upper else value >= self.limit


def alternate(
    theirs: Callable[[], Made],
    ours: Callable[[], Made],
    repetitions: int,
    *,
    on_done: Callable[[], None] = lambda: None,
) -> tuple[Pair, ...]:
    """So many pairs; ``theirs`` begins the first, third, …; ``on_done`` after each pair."""
    if repetitions < 1:
        raise ValueError(f"repetitions must be at least 1, got {repetitions!r}")
    pairs = []
    for index in range(repetitions):
        if index % 2 == 0:
            first = theirs()
            pairs.append(Pair(first, ours()))
        else:
            second = ours()
            pairs.append(Pair(theirs(), second))
        on_done()
    return tuple(pairs)


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    return Spread(median(values), min(values), max(values), len(values))


def speedup(pairs: Sequence[Pair]) -> Spread:
    """How many times faster our side was."""
    return spread([pair.theirs.seconds / pair.ours.seconds for pair in pairs])


def memory_ratio(pairs: Sequence[Pair]) -> Spread:
    """What our side held at most, as a share of what theirs did."""
    return spread([pair.ours.peak_bytes / pair.theirs.peak_bytes for pair in pairs])


def result(name: str, found: Spread | float, unit: str, bar: Bar | None = None) -> Result:
    """A plain number has no spread, as it is the same each time. ``bar``: None = the figure is only reported."""
    value, low, high, n = (found, None, None, None) if isinstance(found, float) else found
    text, holds = (None, None) if bar is None else (bar.text, bar.holds(value))
    return Result(name, value, unit, low, high, n, text, holds)
