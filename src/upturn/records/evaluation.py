"""Evaluations of trajectories."""

from collections.abc import Mapping
from typing import Literal

from upturn.records.record import record

EvaluationVerdict = Literal["success", "failure", "missing"]
"""``missing``: the evaluator crashed or has not answered. Excluded from training; a failure in every rate."""


@record
class GateResult:
    """A pass-or-fail check; a success must pass all of them."""

    name: str
    is_passed: bool
    detail: str = ""


@record
class Evaluation:
    """The evaluation of one trajectory by one evaluator version."""

    id: str
    task_id: str
    trajectory_id: str
    evaluator: str
    """Name and version, e.g. ``office/1``. It determines the evaluation of a trajectory."""
    verdict: EvaluationVerdict
    gates: tuple[GateResult, ...]
    rewards: Mapping[str, float | None]
    """Reward components by name, unweighted; None = missing, which is not 0."""
    costs: Mapping[str, float]
    """Cost components by name, summed over the turns. Never added to rewards."""
    score: float | None
    """The rubric's combination of the rewards, in [0, 1]; None = a component that it needs is missing."""

    @property
    def is_success(self) -> bool:
        """True for the verdict ``success``; a missing evaluation is no success."""
        return self.verdict == "success"
