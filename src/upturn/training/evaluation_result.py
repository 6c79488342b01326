"""What a held-out evaluation found: one score, and costs that bound which weights may be kept. No torch here."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from upturn.errors import TrainingError

NO_COSTS: Mapping[str, float] = MappingProxyType({})
NONE_MISSING: Mapping[str, int] = MappingProxyType({})
NO_FIGURES: Mapping[str, float] = MappingProxyType({})


class Assessment(NamedTuple):
    """The weights as they are, measured on tasks or rows that no step was taken on."""

    score: float
    """Higher is better."""
    costs: Mapping[str, float] = NO_COSTS
    """By name; lower is better. Never added to the score."""
    low: float | None = None
    """Lower end of the score's 95 % interval; None = not computed."""
    high: float | None = None
    tasks: int | None = None
    """How many tasks, or rows, the score is of; None = not said."""
    measure: str = ""
    """What the score is, in words: ``success on training templates in unseen worlds``; empty = not said."""
    missing_costs: Mapping[str, int] = NONE_MISSING
    """By cost, how many of the tasks have none and are not in its mean; a cost that all have need not be named."""
    figures: Mapping[str, float] = NO_FIGURES
    """By name, what else was measured; nothing is chosen or stopped by it."""

    def is_within(self, limits: Mapping[str, float]) -> bool:
        """True when no cost is above its limit."""
        return all(self.costs[name] <= limit for name, limit in limits.items())

    def metrics(self) -> dict[str, float | None]:
        """As they stand on the curve."""
        known = {"score_low": self.low, "score_high": self.high, "score_tasks": self.tasks}
        return {
            "score": self.score,
            **{name: float(value) for name, value in known.items() if value is not None},
            **{f"cost_{name}": value for name, value in self.costs.items()},
            **{f"missing_cost_{name}": float(count) for name, count in self.missing_costs.items()},
            **{f"held_out_{name}": value for name, value in self.figures.items()},
        }


Evaluate: TypeAlias = Callable[[int], float | Assessment]
"""The score of the weights as they are, alone or with more; higher is better. Must depend on nothing but them."""


def assessed(found: float | Assessment, limits: Mapping[str, float], units: int) -> Assessment:
    """What an evaluation after ``units`` units returned, fit to be compared.

    Raises TrainingError for numbers that are not finite (a missing cost is not 0), and for limited costs that it
    does not give: such a limit could never bind.
    """
    full = found if isinstance(found, Assessment) else Assessment(float(found))
    numbers = {"score": float(full.score), **full.costs}
    broken = [f"{name} {value!r}" for name, value in numbers.items() if not math.isfinite(value)]
    if broken:
        raise TrainingError(f"the evaluation after {units} units gave {', '.join(broken)}; it must be finite")
    missing = [name for name in limits if name not in full.costs]
    if missing:
        raise TrainingError(
            f"the evaluation after {units} units gave no cost {missing[0]!r}, which has a limit; it gave "
            f"{', '.join(map(repr, full.costs)) or 'none'}. Let the judge give it, 0 included, or drop the limit"
        )
    return full._replace(score=numbers["score"])
