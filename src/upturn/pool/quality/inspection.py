"""Quality gates of a data point, the conditions for training on it: complete, evaluated, tokens, finite, times.

A data point is clean if it passes all gates. A logged decision is not required, since training rollouts and
imported trajectories have none (see ``coverage``).
"""

import math
from typing import NamedTuple

from upturn.pool.reader import Experience
from upturn.records import Evaluation, GateResult, TokenRow, Trajectory, Usage

_BROKEN = ("model_error", "environment_error")

MOST_TOKENS_A_SECOND = 100_000.0
"""No model writes one trajectory faster."""
_LOGPROB_SLACK = 1e-4
"""A log-probability may exceed 0 by the rounding of a float32 log-softmax."""


class Inspection(NamedTuple):
    """The gates of a data point."""

    trajectory_id: str
    gates: tuple[GateResult, ...]

    @property
    def is_clean(self) -> bool:
        """Whether all gates are passed."""
        return all(gate.is_passed for gate in self.gates)


def inspect(experience: Experience) -> Inspection:
    """Returns the data point's gates; a failed gate has the problem as its detail."""
    trajectory, evaluation = experience.trajectory, experience.evaluation
    problems = {
        "complete": _incompleteness(trajectory),
        "evaluated": _missing_evaluation(evaluation),
        "tokens": _token_problem(trajectory),
        "finite": _nonfinite(trajectory, evaluation),
        "times": _impossible_time(trajectory.usage),
    }
    gates = tuple(GateResult(name, not problem, problem) for name, problem in problems.items())
    return Inspection(trajectory.id, gates)


def _impossible_time(usage: Usage) -> str:
    if not 0 <= usage.seconds < math.inf:
        return f"{usage.seconds} seconds"
    if usage.seconds and usage.written_tokens / usage.seconds > MOST_TOKENS_A_SECOND:
        return f"{usage.written_tokens} tokens written in {usage.seconds:g} s"
    return ""


def missing_reward(experience: Experience) -> str:
    """Why the trajectory has no reward: the work failed, or its evaluation is missing. Empty = it has one."""
    return _incompleteness(experience.trajectory) or _missing_evaluation(experience.evaluation)


def _incompleteness(trajectory: Trajectory) -> str:
    if trajectory.outcome in _BROKEN:
        return f"outcome {trajectory.outcome}: {trajectory.error or 'no error recorded'}"
    return "" if trajectory.turns else "no turns"


def _missing_evaluation(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return "no evaluation stored"
    if evaluation.verdict == "missing":
        failed = [f"{gate.name}: {gate.detail}" for gate in evaluation.gates if not gate.is_passed]
        return "; ".join(["verdict missing", *failed])
    if evaluation.score is None:
        missing = [name for name, value in evaluation.rewards.items() if value is None]
        return f"score missing: no value for {', '.join(missing) or 'a component of the rubric'}"
    return ""


def _token_problem(trajectory: Trajectory) -> str:
    if trajectory.origin == "sampled" and not trajectory.rows:
        return "sampled, but no token rows"
    for index, row in enumerate(trajectory.rows):
        if problem := _row_problem(row, trajectory):
            return f"row {index}: {problem}"
    return ""


def _row_problem(row: TokenRow, trajectory: Trajectory) -> str:
    end = 0
    for span in row.spans:
        if not end <= span.start < span.stop <= len(row.token_ids):
            return f"span {span.start}:{span.stop} overlaps, is empty or leaves the {len(row.token_ids)} tokens"
        if not 0 <= span.turn < len(trajectory.turns):
            return f"span names turn {span.turn} of {len(trajectory.turns)}"
        end = span.stop
    written = sum(span.stop - span.start for span in row.spans)
    expected = written if trajectory.origin == "sampled" else 0
    if not row.logprobs and len(row.sampling_logprobs) == expected:
        pass  # an engine that reports these only
    elif len(row.logprobs) != expected:
        return f"{len(row.logprobs)} log-probabilities, expected {expected}"
    elif len(row.sampling_logprobs) not in (0, expected):
        return f"{len(row.sampling_logprobs)} log-probabilities of the sampling distribution, expected {expected}"
    return "a token id below zero" if min(row.token_ids, default=0) < 0 else ""


def _nonfinite(trajectory: Trajectory, evaluation: Evaluation | None) -> str:
    for row in trajectory.rows:
        # A sum is finite only if every number is; one pass in C is faster than a test of each token.
        if any(
            not math.isfinite(sum(logprobs)) or max(logprobs, default=0.0) > _LOGPROB_SLACK
            for logprobs in (row.logprobs, row.sampling_logprobs)
        ):
            return "a log-probability is not a finite number of at most 0"
    if not all(math.isfinite(turn.reward) for turn in trajectory.turns):
        return "a turn's reward is not finite"
    if evaluation is not None and evaluation.score is not None and not 0 <= evaluation.score <= 1:
        return f"score {evaluation.score} is outside 0 to 1"
    return ""
