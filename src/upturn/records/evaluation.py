"""What was judged about a trajectory."""

from collections.abc import Mapping
from typing import Literal

from upturn.records.record import record

EvaluationVerdict = Literal["success", "failure", "missing"]
"""``missing``: the evaluator crashed or has not answered; excluded from training, a failure in every rate."""


@record
class GateResult:
    """One yes-or-no check that a result must pass before it counts as success."""

    name: str
    is_passed: bool
    detail: str = ""


@record
class Evaluation:
    """The judgement of one trajectory by one evaluator version."""

    id: str
    task_id: str
    trajectory_id: str
    evaluator: str
    """Name and version, ``office/1``: the same evaluator on the same trajectory gives the same evaluation."""
    verdict: EvaluationVerdict
    gates: tuple[GateResult, ...]
    rewards: Mapping[str, float | None]
    """Reward components by name, unweighted; None = missing, which is not zero."""
    costs: Mapping[str, float]
    """Cost components by name, summed over the turns. Never added to rewards."""
    score: float | None
    """The rubric's combination of the rewards, in [0, 1]; None when a component it needs is missing."""

    @property
    def is_success(self) -> bool:
        """True only for a judged success: a missing judgement is not one."""
        return self.verdict == "success"
