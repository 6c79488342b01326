"""The result of a held-out evaluation: a score, and costs that limit which weights may be kept. No torch here."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from upturn.errors import TrainingError

_EMPTY: Mapping[str, Any] = MappingProxyType({})


class EvaluationResult(NamedTuple):
    """Measurements of the current weights on tasks or rows that are not trained on."""

    score: float
    """Higher is better."""
    costs: Mapping[str, float] = _EMPTY
    """By name; lower is better. Never added to the score."""
    low: float | None = None
    """Lower end of the score's 95 % interval; None = not computed."""
    high: float | None = None
    tasks: int | None = None
    """Number of tasks, or rows, that were evaluated; None = unknown."""
    measure: str = ""
    """Description of the score: ``success on training templates in unseen worlds``; empty = none."""
    missing_costs: Mapping[str, int] = _EMPTY
    """By cost, the number of tasks without it, which are not in its mean; costs without missing values may be
    omitted."""
    figures: Mapping[str, float] = _EMPTY
    """By name, further measurements; they neither select weights nor stop a run."""

    def is_within(self, limits: Mapping[str, float]) -> bool:
        """True when no cost is above its limit."""
        return all(self.costs[name] <= limit for name, limit in limits.items())

    def metrics(self) -> dict[str, float | None]:
        """The metrics of the learning curve."""
        optional = {"score_low": self.low, "score_high": self.high, "score_tasks": self.tasks}
        return {
            "score": self.score,
            **{name: float(value) for name, value in optional.items() if value is not None},
            **{f"cost_{name}": value for name, value in self.costs.items()},
            **{f"missing_cost_{name}": float(count) for name, count in self.missing_costs.items()},
            **{f"held_out_{name}": value for name, value in self.figures.items()},
        }


Evaluate: TypeAlias = Callable[[int], float | EvaluationResult]
"""Evaluates the current weights; may depend on nothing else."""


def check_result(returned: float | EvaluationResult, limits: Mapping[str, float], units: int) -> EvaluationResult:
    """Returns the result of the evaluation after ``units`` units with its score as a float.

    Raises TrainingError for numbers that are not finite (a missing cost is not 0), and for missing costs that have
    a limit, which could never be exceeded."""
    result = returned if isinstance(returned, EvaluationResult) else EvaluationResult(float(returned))
    numbers = {"score": float(result.score), **result.costs}
    broken = [f"{name} {value!r}" for name, value in numbers.items() if not math.isfinite(value)]
    if broken:
        raise TrainingError(f"the evaluation after {units} units gave {', '.join(broken)}; it must be finite")
    missing = [name for name in limits if name not in result.costs]
    if missing:
        raise TrainingError(
            f"the evaluation after {units} units gave no cost {missing[0]!r}, which has a limit; it gave "
            f"{', '.join(map(repr, result.costs)) or 'none'}. Let the verifier report it, 0 included, or drop the "
            "limit"
        )
    return result._replace(score=numbers["score"])
