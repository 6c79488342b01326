"""A finer reward than success: milestones, efficiency, quality and user satisfaction. A run can choose it.

The verdict and the gates are the office verifier's; only the score differs. The components:

- Efficiency counts for successes only; otherwise a short failure would earn it.
- Safety has no weight. It is a constraint: violations are costs that no quality compensates.
- Milestones are read from the final state, not from successful calls: the sum of a potential's differences (Ng,
  Harada and Russell 1999), so that repeated, undone and irrelevant steps earn nothing.
- Quality has three rule-based parts: format (well-formed calls), content (the share of right changes) and semantics
  (answer, questions, nothing else changed). Without right content there is no quality.
- User satisfaction is the simulated user's: thumbs up if the work is right and they were not asked needlessly.
"""

from dataclasses import dataclass, fields, replace

from upturn.environments.office.partial_credit import passage
from upturn.environments.office.tasks import compose
from upturn.environments.office.verifier import OfficeVerifier
from upturn.errors import ConfigError
from upturn.records import Evaluation, Task, Trajectory
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

    Pure. Weights with which a run trains stand in ``[rewards] weights``, by the same names.
    """

    name = "office-rubric/1"

    def __init__(self, weights: RubricWeights = RubricWeights()) -> None:
        values = {field.name: getattr(weights, field.name) for field in fields(weights)}
        self._rubric = Rubric(self.name, {name: weight for name, weight in values.items() if weight})
        self._verifier = OfficeVerifier()

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """As the office's verifier, with every component logged: the weighted ones, and the levels of quality."""
        evaluation = self._verifier.verify(task, trajectory)
        passed = {gate.name for gate in evaluation.gates if gate.is_passed}
        shape = well_formed(trajectory)
        way = passage(task, trajectory, evaluation)
        right = way.reached / (way.milestones + sum(minefield.startswith("change ") for minefield in way.hit))
        meant = sum(name in passed for name in ("answer", "asked", "untouched")) / 3
        rewards = {
            **evaluation.rewards,
            "quality": right * (1 + shape + meant) / 3,
            "milestones": way.share,
            "user": float(evaluation.is_success and not bothered(task, trajectory)),
            "quality_format": shape,
            "quality_content": right,
            "quality_semantics": meant,
        }
        return replace(
            evaluation,
            id=evaluation_id(self.name, trajectory.id),
            evaluator=self.name,
            rewards=rewards,
            score=self._rubric.score(rewards),
        )


def well_formed(trajectory: Trajectory) -> float:
    """Share of the turns whose text could be read as an action that exists; 0 without turns."""
    answers = [*(turn.observation.code for turn in trajectory.turns[1:]), trajectory.final_observation.code]
    good = sum(
        turn.action is not None and code not in ILL_FORMED
        for turn, code in zip(trajectory.turns, answers, strict=False)
    )
    return good / max(1, len(trajectory.turns))


def bothered(task: Task, trajectory: Trajectory) -> bool:
    """Whether the user got a needless question or had to decline more often than they have objections."""
    if any(turn.costs.get("needless_question") for turn in trajectory.turns):
        return True
    draft = compose(task).draft
    answers = [*(turn.observation.text for turn in trajectory.turns[1:]), trajectory.final_observation.text]
    declined = sum(
        turn.action is not None and turn.action.operation == "confirm" and answer.startswith("no")
        for turn, answer in zip(trajectory.turns, answers, strict=False)
    )
    return declined > bool(draft.objection)
