"""From gates and components to an evaluation: its verdict, its score, its costs and its id. Pure functions."""

import hashlib
from collections.abc import Iterable, Mapping

from upturn.records import EvaluationVerdict, GateResult, Turn, record


@record
class Rubric:
    """Weights by component. Every component is logged; only the weighted ones enter the score."""

    name: str
    weights: Mapping[str, float]
    """Positive; a component that is not named here is a metric with weight 0."""

    def score(self, components: Mapping[str, float | None]) -> float | None:
        """The weighted mean of the components, in [0, 1] when they are; None when a weighted one is missing.

        Missing is not zero: a crashed component leaves the trajectory unscored instead of failed.
        """
        total = 0.0
        for name, weight in self.weights.items():
            value = components.get(name)
            if value is None:
                return None
            total += weight * value
        return total / sum(self.weights.values())


def verdict_of(gates: Iterable[GateResult]) -> EvaluationVerdict:
    """``success`` when there is at least one gate and all pass; no gate at all is ``missing``."""
    results = tuple(gates)
    if not results:
        return "missing"
    return "success" if all(gate.is_passed for gate in results) else "failure"


def efficiency(*, is_success: bool, shortest: int, turns: int) -> float:
    """Length of the shortest known solution over the turns taken, at most 1; 0 on failure: giving up never pays."""
    if not is_success:
        return 0.0
    return min(1.0, shortest / max(turns, 1))


def sum_costs(turns: Iterable[Turn], known: Iterable[str]) -> dict[str, float]:
    """The turns' costs by component; components in ``known`` are present (0) even where no turn has them."""
    costs = dict.fromkeys(known, 0.0)
    for turn in turns:
        for name, cost in turn.costs.items():
            costs[name] = costs.get(name, 0.0) + cost
    return costs


def evaluation_id(evaluator: str, trajectory_id: str) -> str:
    """The id of this evaluator's evaluation of this trajectory; the same whenever it is repeated."""
    return f"v-{hashlib.blake2b(f'{evaluator}/{trajectory_id}'.encode(), digest_size=8).hexdigest()}"
