"""A contender's credit for the turns of groups, and how it agrees with what they changed."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from benchmarks.credit.estimator import Contender
from benchmarks.credit.mdp import Floats
from upturn.training import ScoredGroup
from upturn.training.advantages import advantage_of, rescaled


def credit(contender: Contender, groups: Sequence[ScoredGroup]) -> Floats:
    """``(N,)``: the advantage of each turn, in the order of the groups, their members and turns."""
    estimator = advantage_of(contender.settings)
    compared = [estimator(group) for group in groups]
    found = rescaled(groups, compared, by=contender.settings.scale)
    return np.array([value for each in found for turns in each.turns for value in turns])


def agreement(given: Floats, truth: Floats) -> float:
    """Spearman's rank correlation; 0 where either is the same everywhere."""
    if np.ptp(given) == 0 or np.ptp(truth) == 0:
        return 0.0
    return float(spearmanr(given, truth).statistic)
