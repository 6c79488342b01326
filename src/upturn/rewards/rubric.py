"""Evaluations from gates and components: verdict, score, costs and id. Pure functions."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from upturn.config import RewardConfig
from upturn.records import Evaluation, EvaluationVerdict, GateResult, Trajectory, Turn, record
from upturn.rewards.part import (
    Component,
    Components,
    Gate,
    Part,
    Term,
    WeightedSum,
    check_weights,
    is_complete,
    score_of,
)

GATED = "gated"
"""Name of the part behind the gates of ``[rewards]``."""


@record
class Rubric:
    """A named sum of weighted components. Every component is logged; only the weighted ones enter the score."""

    name: str
    """Name and version, e.g. ``office/5``."""
    weights: Mapping[str, float]
    """By component, or by the name of a part; negative = a pitfall. Other components are metrics with weight 0."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """``Gate``, ``Sequential`` or ``WeightedSum`` in place of components of these names."""

    def __post_init__(self) -> None:
        """Raises ValueError as ``WeightedSum``."""
        check_weights(self.weights, self.parts)

    def terms(self, components: Components) -> Sequence[Term]:
        """What the score adds up, as ``WeightedSum.terms``."""
        return WeightedSum(self.weights, self.parts).terms(components)

    def score(self, components: Components) -> float | None:
        """As ``score_of``: a missing component is left out and the rest renormalise; None = nothing is known."""
        return score_of(self.terms(components))

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


def configured_rubric(rewards: RewardConfig) -> Rubric:
    """The rubric of ``[rewards]``: the weights, with its sequence and behind its gates."""
    name, weights, order = f"{rewards.name}/{rewards.version}", rewards.numbers, rewards.sequence
    parts: dict[str, Part] = {
        stage: Gate(dict.fromkeys(order[:index], 1.0), Component(stage))
        for index, stage in enumerate(order)
        if index
    }
    if not rewards.gates:
        return Rubric(name, weights, parts)
    return Rubric(name, {GATED: 1.0}, {GATED: Gate(rewards.gates, WeightedSum(weights, parts))})


def configured_score(rewards: RewardConfig, evaluation: Evaluation) -> float | None:
    """The score of ``[rewards]`` over an evaluation's components.

    None for a missing evaluation, where nothing is known, and with ``missing = "unscored"`` where a weighted
    component is missing.
    """
    terms = configured_rubric(rewards).terms(evaluation.rewards)
    if evaluation.verdict == "missing" or (rewards.missing == "unscored" and not is_complete(terms)):
        return None
    return score_of(terms)


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
