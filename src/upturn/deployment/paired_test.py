"""Paired tests for a fixed sample size: is one of two versions worse on the same tasks.

They are not valid if the data are tested repeatedly while they arrive; ``sequential`` is for that case.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

from upturn.deployment.sequential import FloatArray
from upturn.interval import RESAMPLES, by_cluster


def paired_worse_p(
    differences: npt.ArrayLike, seed: int, resamples: int = RESAMPLES, *, clusters: Sequence[str] | None = None
) -> float:
    """Returns the one-sided p-value of "the mean of the paired differences is below 0" (sign-flip test).

    The signs of a cluster's differences are flipped together, since exchanging the versions exchanges all of them;
    ``clusters``: see ``bootstrap_mean``. If all non-zero sums have the same size the test is exact: it is the sign
    test, or McNemar's test for pairs of successes and failures. Otherwise the p-value is estimated from
    ``resamples`` random sign flips and the observed signs, so that it is never 0. Returns 1.0 if all sums are 0.
    """
    nonzero, _ = by_cluster(np.asarray(differences, dtype=np.float64), clusters)
    nonzero = nonzero[nonzero != 0]
    if nonzero.size == 0:
        return 1.0
    sizes = np.abs(nonzero)
    if np.all(sizes == sizes[0]):
        below = int((nonzero < 0).sum())
        return float(betainc(below, nonzero.size - below + 1, 0.5)) if below else 1.0  # P(binomial >= below)
    rng = np.random.default_rng(seed)
    signs = rng.integers(0, 2, size=(resamples, nonzero.size), dtype=np.int8).astype(np.float64) * 2.0 - 1.0
    # The tolerance is for sums that are equal in exact arithmetic.
    at_most_observed = int((signs @ sizes <= nonzero.sum() + 1e-9).sum())
    return (1 + at_most_observed) / (1 + resamples)


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Returns Holm's adjusted p-values (n,) in the order of ``p_values``; reject where at most alpha."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted
