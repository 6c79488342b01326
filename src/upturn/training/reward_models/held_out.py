"""How good a reward model is on data that was held out, and whether it merely measures length. No torch here."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from upturn.interval import Interval, bootstrap_mean

BINS = 10
"""Of equal width, in the calibration error: the usual number (arXiv 1706.04599)."""


class RankedPair(NamedTuple):
    """A pair of trajectories with the outputs of an outcome model."""

    task: str
    chosen: float
    rejected: float
    chosen_tokens: int
    """Written ones."""
    rejected_tokens: int


class Ranking(NamedTuple):
    """An outcome model on pairs. Its outputs do not depend on which side of a pair comes first."""

    accuracy: Interval
    """Share of pairs whose chosen side has the higher output, equal outputs counting ½; 95 % by bootstrap over
    tasks."""
    loss: float
    """Mean of −log σ(chosen − rejected)."""
    longer_preferred: float | None
    """Share of pairs whose longer side has the higher output. None = the sides of every pair are equally long."""
    longer_chosen: float | None
    """Share of pairs whose longer side was chosen: that share if the model has no preference for length of its
    own."""
    length_correlation: float | None
    """Spearman's, of output and written tokens over all sides. None = one of them is constant."""


def ranking(pairs: Sequence[RankedPair]) -> Ranking:
    """Returns the measures on at least one pair."""
    wins = [_wins(pair.chosen, pair.rejected) for pair in pairs]
    unequal = [pair for pair in pairs if pair.chosen_tokens != pair.rejected_tokens]
    is_longer = [float(pair.chosen_tokens > pair.rejected_tokens) for pair in unequal]
    preferred = [_wins(pair.chosen, pair.rejected) for pair in unequal]
    agreed = [win if longer else 1 - win for win, longer in zip(preferred, is_longer, strict=True)]
    return Ranking(
        bootstrap_mean(wins, seed=0, clusters=[pair.task for pair in pairs], bounds=(0.0, 1.0)),
        math.fsum(float(np.logaddexp(0.0, pair.rejected - pair.chosen)) for pair in pairs) / len(pairs),
        _mean(agreed),
        _mean(is_longer),
        rank_correlation(
            [output for pair in pairs for output in (pair.chosen, pair.rejected)],
            [float(length) for pair in pairs for length in (pair.chosen_tokens, pair.rejected_tokens)],
        ),
    )


class JudgedTurns(NamedTuple):
    """A trajectory with the probabilities of a process model, by turn."""

    task: str
    probabilities: Sequence[float]
    targets: Sequence[float]
    """In [0, 1]."""
    score: float
    """The aggregate of the probabilities."""
    is_success: bool


class Calibration(NamedTuple):
    """A process model on the turns of trajectories."""

    loss: float
    """Mean cross-entropy of the turns."""
    brier: Interval
    """Mean of (p − y)² over the turns; 95 % by bootstrap over tasks."""
    base_brier: float
    """The same for a constant p, the mean target of these turns: a model without information."""
    calibration_error: float
    """Expected calibration error: |mean p − mean y| in each of ten bins of p, weighted by turns."""
    separation: float | None
    """``separation`` of successes from failures by the trajectories' scores."""


def calibration(trajectories: Sequence[JudgedTurns]) -> Calibration:
    """Returns the measures on at least one turn."""
    p = np.concatenate([np.asarray(item.probabilities, dtype=np.float64) for item in trajectories])
    y = np.concatenate([np.asarray(item.targets, dtype=np.float64) for item in trajectories])
    tasks = [item.task for item in trajectories for _ in item.probabilities]
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, weights=p - y, minlength=BINS)
    bounded = np.clip(p, 1e-12, 1 - 1e-12)  # a probability that rounds to 0 or 1 would have an infinite loss
    return Calibration(
        float(-(y * np.log(bounded) + (1 - y) * np.log1p(-bounded)).mean()),
        bootstrap_mean((p - y) ** 2, seed=0, clusters=tasks, bounds=(0.0, 1.0)),
        float(((y - y.mean()) ** 2).mean()),
        float(np.abs(gaps).sum() / len(p)),
        separation([(item.score, item.is_success) for item in trajectories]),
    )


def separation(scored: Iterable[tuple[float, bool]]) -> float | None:
    """Returns the probability that a success scores above a failure, equal scores counting ½ (the area under the
    ROC curve). None = all succeeded, or all failed."""
    pairs = list(scored)
    good = [score for score, is_success in pairs if is_success]
    bad = np.sort([score for score, is_success in pairs if not is_success])
    if not good or not len(bad):
        return None
    below = np.searchsorted(bad, good, side="left") + np.searchsorted(bad, good, side="right")
    return float(below.mean()) / (2 * len(bad))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Returns Spearman's correlation; None where one side is constant."""
    from scipy.stats import spearmanr  # a second to import

    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(spearmanr(first, second).statistic)


def _wins(chosen: float, rejected: float) -> float:
    return (float(chosen > rejected) + float(chosen >= rejected)) / 2


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
