"""A finer reward than success: milestones, efficiency, quality and user satisfaction. A run can choose it.

The verdict and the gates are the office verifier's; only the score differs. The components:

- Efficiency counts for successes only; otherwise a short failure would earn it.
- Safety has no weight. It is a constraint: violations are costs that no quality compensates.
- Milestones are read from the final state, not from successful calls: the sum of a potential's differences (Ng,
  Harada and Russell 1999), so that repeated, undone and irrelevant steps earn nothing.
- Quality has three rule-based parts: format (well-formed calls), content (share of correct changes) and semantics
  (answer, questions, nothing else changed). Without correct content there is no quality.
- User satisfaction is 1 if the task succeeded and the simulated user got no needless question.
"""

from dataclasses import dataclass, fields, replace

from upturn.environments.office.partial_credit import passage
from upturn.environments.office.tasks import compose
from upturn.environments.office.verifier import OfficeVerifier
from upturn.errors import ConfigError
from upturn.records import Evaluation, Observation, Task, Trajectory
from upturn.rewards import Rubric, evaluation_id

ILL_FORMED = frozenset(
    (
        *("malformed", "unknown_target", "unknown_operation", "unknown_parameter"),
        *("missing_parameter", "bad_type", "bad_value"),
    )
)
"""Codes of actions that are invalid in every state."""


@dataclass(frozen=True, slots=True)
class RubricWeights:
    """The default weight of each component."""

    success: float = 0.5
    quality: float = 0.2
    efficiency: float = 0.15
    milestones: float = 0.1
    user: float = 0.05

    def __post_init__(self) -> None:
        """Raises ConfigError for weights below 0, and where a failure could earn as much as a success."""
        weights = {field.name: getattr(self, field.name) for field in fields(self)}
        problems = [f"{name} must be 0 or more, got {weight!r}" for name, weight in weights.items() if weight < 0]
        most = self.quality + self.milestones + self.user
        if self.success <= most:
            problems.append(
                f"success={self.success!r} must weigh more than quality, milestones and user together ({most:g}), "
                "or a failure could earn as much as a success"
            )
        if problems:
            raise ConfigError([f"rubric weights: {problem}" for problem in problems])


class RubricVerifier:
    """The office's verifier with this module's components and score; choose it with ``environment.verifier``.

    Pure. The weights of a training run are in ``[rewards] weights``, by the same names.
    """

    name = "office-rubric/2"

    def __init__(self, weights: RubricWeights = RubricWeights()) -> None:
        values = {field.name: getattr(weights, field.name) for field in fields(weights)}
        self._rubric = Rubric(self.name, {name: weight for name, weight in values.items() if weight})
        self._verifier = OfficeVerifier()

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """As the office's verifier, with every component logged: the weighted ones, and the levels of quality."""
        evaluation = self._verifier.verify(task, trajectory)
        passed = {gate.name for gate in evaluation.gates if gate.is_passed}
        format_ = well_formed_share(trajectory)
        facts = passage(task, trajectory, evaluation)
        content = facts.reached / (facts.milestones + sum(name.startswith("change ") for name in facts.hit))
        semantics = sum(name in passed for name in ("answer", "asked", "untouched")) / 3
        rewards = {
            **evaluation.rewards,
            "quality": content * (1 + format_ + semantics) / 3,
            "milestones": facts.share,
            "user": float(evaluation.is_success and not is_user_bothered(task, trajectory)),
            "quality_format": format_,
            "quality_content": content,
            "quality_semantics": semantics,
        }
        return replace(
            evaluation,
            id=evaluation_id(self.name, trajectory.id),
            evaluator=self.name,
            rewards=rewards,
            score=self._rubric.score(rewards),
        )


def well_formed_share(trajectory: Trajectory) -> float:
    """Share of turns with a well-formed action; 0 without turns."""
    pairs = zip(trajectory.turns, trajectory.results, strict=True)
    good = sum(turn.action is not None and result.code not in ILL_FORMED for turn, result in pairs)
    return good / max(1, len(trajectory.turns))


def _is_no(reply: Observation) -> bool:
    return not reply.is_error and reply.text.startswith("no")


def is_user_bothered(task: Task, trajectory: Trajectory) -> bool:
    """Whether the user got a needless question, or declined more often than they have objections."""
    if any(turn.costs.get("needless_question") for turn in trajectory.turns):
        return True
    declined = sum(
        turn.action is not None and turn.action.name == "user.confirm" and _is_no(result)
        for turn, result in zip(trajectory.turns, trajectory.results, strict=True)
    )
    return declined > bool(compose(task).draft.objection)
