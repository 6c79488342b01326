"""Evaluations from gates and components: verdict, score, costs and id. Pure functions."""

import hashlib
from collections.abc import Iterable, Mapping

from upturn.records import Evaluation, EvaluationVerdict, GateResult, Trajectory, Turn, record


@record
class Rubric:
    """Weights by component. Every component is logged; only the weighted ones enter the score."""

    name: str
    weights: Mapping[str, float]
    """Positive; other components are metrics with weight 0."""

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

    def evaluate(
        self,
        trajectory: Trajectory,
        gates: tuple[GateResult, ...],
        *,
        shortest: int,
        costs: Mapping[str, float],
        components: Mapping[str, float | None] | None = None,
    ) -> Evaluation:
        """The evaluation by these gates, with the components ``success`` and ``efficiency`` and these others.

        ``shortest``: turns of the shortest known solution.
        """
        verdict = verdict_of(gates)
        is_success = verdict == "success"
        rewards: dict[str, float | None] = {
            "success": float(is_success),
            "efficiency": efficiency(is_success=is_success, shortest=shortest, turns=len(trajectory.turns)),
            **(components or {}),
        }
        return Evaluation(
            id=evaluation_id(self.name, trajectory.id),
            task_id=trajectory.task_id,
            trajectory_id=trajectory.id,
            evaluator=self.name,
            verdict=verdict,
            gates=gates,
            rewards=rewards,
            costs=costs,
            score=self.score(rewards),
        )


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
