"""On-policy distillation: a teacher's scores of the policy's own tokens become their advantages. No torch here.

The advantage of a sampled token is s_t = log π_teacher − log π_old (Thinking Machines, "On-Policy Distillation",
2025; MiniLLM's reverse KL, arXiv 2306.08543, token by token). The mean of s_t·∇log π over tokens that π drew is the
negative gradient of KL(π(·|history) ‖ π_teacher(·|history)), whatever the vocabulary's size.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upturn.errors import TrainingError
from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup, total_reward
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.scorer import Scorer
from upturn.training.teacher_settings import TeacherSettings

if TYPE_CHECKING:
    from upturn.training.optimisation import DistributionTeacher


class Teacher(NamedTuple):
    """A frozen model that scores tokens, and what its scores count for."""

    scorer: Scorer | None
    """Log-probs of the written tokens of rows; NaN or −inf = missing. None = the trainer compares whole
    distributions (``estimator="full"``), so that no token is scored here."""
    settings: TeacherSettings


def teacher_of(teacher: "Scorer | DistributionTeacher | None", settings: TeacherSettings | None) -> Teacher | None:
    """Returns what a policy update needs of a run's teacher; None = it has none."""
    if teacher is None or settings is None:
        return None
    from upturn.training.optimisation import DistributionTeacher

    return Teacher(None if isinstance(teacher, DistributionTeacher) else teacher, settings)


def whole_teacher(
    teacher: "Scorer | DistributionTeacher | None", settings: TeacherSettings | None
) -> "DistributionTeacher | None":
    """Returns the teacher where the trainer compares whole distributions, else None.

    Raises TrainingError where the estimator and the kind of teacher do not fit.
    """
    if teacher is None or settings is None:
        return None
    from upturn.training.optimisation import DistributionTeacher

    if isinstance(teacher, DistributionTeacher) != (settings.estimator == "full"):
        raise TrainingError(
            f"the teacher is a {type(teacher).__name__}, which does not go with estimator={settings.estimator!r}; "
            "give a DistributionTeacher for 'full', a scorer for 'sampled'"
        )
    return teacher if isinstance(teacher, DistributionTeacher) else None


class TaughtRows(NamedTuple):
    """Rows whose weights include the teacher's advantages."""

    rows: list[TrainingRow]
    metrics: dict[str, float]
    """``teacher_kl``: mean over the scored tokens of log π_old − log π_teacher; ``teacher_missing``: tokens without
    an advantage, because a score that it needs is missing."""


def taught_rows(rows: Sequence[TrainingRow], teacher: Teacher) -> TaughtRows:
    """Returns the rows with ``coefficient`` times the teacher's advantages added to their weights.

    With a discount γ, a token's teacher advantage is s_t + γ·s_{t+1} + γ²·s_{t+2} + … over the written tokens of
    its row. A token whose sum has a missing score gets the weight 0 in all, rewards included: 0 in place of the
    score would claim that the teacher agrees. Raises TrainingError for scores that do not fit the rows.
    """
    assert teacher.scorer is not None
    scores = teacher.scorer([replace(row, temperature=1.0) for row in rows])  # whatever the policy's is
    _check_shapes(rows, scores)
    discount, coefficient = teacher.settings.discount, teacher.settings.coefficient
    signals = [_signals(row, score) for row, score in zip(rows, scores, strict=True)]
    taught, missing = list[TrainingRow](), 0
    for row, signal in zip(rows, signals, strict=True):
        advantages = signal if discount == 0 else _discounted_sums(signal, discount)
        is_missing = np.isnan(advantages)
        missing += int(is_missing.sum())
        weights = np.where(is_missing, 0.0, row.weights + coefficient * advantages)
        taught.append(replace(row, weights=weights.astype(np.float32)))
    known = np.concatenate([signal[~np.isnan(signal)] for signal in signals])
    metrics = {"teacher_missing": float(missing)}
    if len(known):
        metrics["teacher_kl"] = -float(known.mean())
    return TaughtRows(taught, metrics)


def _signals(row: TrainingRow, score: FloatArray) -> NDArray[np.float64]:
    """s_t of each written token; NaN where the teacher has no finite score."""
    assert row.old_logprobs is not None  # of a policy gradient
    values = np.asarray(score, dtype=np.float64)
    return np.where(np.isfinite(values), values - row.old_logprobs, np.nan)


def _discounted_sums(signal: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    """Each value plus the discounted later ones; NaN where one of them is."""
    sums = np.empty_like(signal)
    total = 0.0
    for index in range(len(signal) - 1, -1, -1):
        total = signal[index] + discount * total
        sums[index] = total
    return sums


def _check_shapes(rows: Sequence[TrainingRow], scores: Sequence[FloatArray]) -> None:
    if len(scores) != len(rows):
        raise TrainingError(
            f"the teacher scored {len(scores)} rows, {len(rows)} were sent; return one array for each"
        )
    for row, score in zip(rows, scores, strict=True):
        if np.shape(score) != row.positions.shape:
            raise TrainingError(
                f"the teacher has scores of shape {np.shape(score)!r} for the {len(row.positions)} written tokens "
                f"of trajectory {row.trajectory_id!r}; return one per token, NaN where there is none"
            )


class WithoutRewards:
    """The advantage 0 for every turn: the teacher is the only signal. No group counts as filtered."""

    needs: frozenset[Need] = frozenset()

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """0 by member, then by turn; the returns are reported as usual."""
        returns = tuple(total_reward(member) if member.is_scorable else None for member in group.members)
        turns = tuple((0.0,) * len(member.trajectory.turns) for member in group.members)
        return GroupAdvantages(turns, is_informative=True, returns=returns)
