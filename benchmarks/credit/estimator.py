"""The estimators that are compared, each with its source's options, and their agreement with the truth."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import spearmanr

from benchmarks.credit.mdp import Floats
from benchmarks.result_cache import CacheKey, digest
from upturn.training import ScoredGroup
from upturn.training.advantages import AdvantageSettings, advantage_of, rescaled

BASELINE = "trajectory"
"""The estimator that the others are compared with: one number per trajectory."""


@dataclass(frozen=True, slots=True)
class Estimator:
    """A named configuration of turn credit."""

    name: str
    settings: AdvantageSettings = field(default_factory=AdvantageSettings)
    continuations: int = 0
    """Per state, to measure its value, where agreement is measured; 0 = the estimator needs no values."""
    training_continuations: tuple[int, ...] = (0,)
    """The same during training, where they cost tokens: in the key-door world the best of these on tuning seeds, in
    errands, which has no tuning seeds, the first."""

    def key(self, part: str, seed: int) -> CacheKey:
        """The key of a measurement of this estimator, which depends on all its options."""
        return CacheKey(part, self.name, seed, digest(self))


ESTIMATORS = (
    Estimator(BASELINE),
    Estimator("turn", AdvantageSettings("turn", gamma=0.95)),
    Estimator("state", AdvantageSettings("state", gamma=0.95)),
    Estimator("tree", AdvantageSettings("tree")),
    Estimator("tree_outcome", AdvantageSettings("tree", turn_weight=1.0)),
    Estimator("monte_carlo", AdvantageSettings("monte_carlo"), 8, (4, 1, 8)),
    Estimator("divergence_outcome", AdvantageSettings("divergence", turn_weight=1.0), 64, (16,)),
)


def turn_credit(estimator: Estimator, groups: Sequence[ScoredGroup]) -> Floats:
    """``(N,)``: the advantage of each turn, in the order of the groups, their members and turns."""
    advantage = advantage_of(estimator.settings)
    advantages = rescaled(groups, [advantage(group) for group in groups], by=estimator.settings.scale)
    return np.array([value for group in advantages for turns in group.turns for value in turns])


def rank_correlation(credit: Floats, truth: Floats) -> float:
    """Spearman's rank correlation; 0 where either is constant."""
    if np.ptp(credit) == 0 or np.ptp(truth) == 0:
        return 0.0
    return float(spearmanr(credit, truth).statistic)
