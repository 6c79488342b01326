"""Statistics for a fixed sample size: intervals of rates, means and paired differences; p-values.

They are not valid if the data are tested repeatedly while they arrive; ``sequential`` is for that case.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import beta, binom, norm

from upturn.deployment.sequential import FloatArray
from upturn.records import Result

RESAMPLES = 10_000
"""Bootstrap resamples; the limits then differ between seeds by less than a tenth of the interval's width."""

_CHUNK_CELLS = 2_000_000
"""Resampled counts in memory at a time (16 MB)."""


class Interval(NamedTuple):
    """An estimate with its lower and upper limit, from ``n`` observations."""

    mean: float
    low: float
    high: float
    n: int

    def result(
        self, name: str, unit: str = "share", *, bar: str | None = None, holds: bool | None = None
    ) -> Result:
        """The estimate as a named figure."""
        return Result(name, self.mean, unit, self.low, self.high, self.n, bar, holds)


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Returns Wilson's score interval of a success rate; (0.5, 0, 1) for ``n`` = 0."""
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be in 0..n, got {successes!r} of {n!r}; count each task once")
    if n == 0:
        return Interval(0.5, 0.0, 1.0, 0)
    z = float(norm.ppf(0.5 + confidence / 2.0))
    rate = successes / n
    spread = z * z / n
    centre = (rate + spread / 2.0) / (1.0 + spread)
    half = z / (1.0 + spread) * float(np.sqrt(rate * (1.0 - rate) / n + spread / (4.0 * n)))
    # At 0 and n successes the limit is exactly 0 and 1; the formula would have a rounding error.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Interval(rate, low, high, n)


def clopper_pearson_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Returns the exact (Clopper–Pearson) interval of a success rate; its coverage is at least ``confidence``."""
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"successes must be in 0..n with n > 0, got {successes!r} of {n!r}")
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, n - successes + 1))
    high = 1.0 if successes == n else float(beta.ppf(1.0 - tail, successes + 1, n - successes))
    return Interval(successes / n, low, high, n)


def bootstrap_mean(
    values: npt.ArrayLike, seed: int, *, confidence: float = 0.95, resamples: int = RESAMPLES
) -> Interval:
    """Returns the percentile bootstrap interval of the mean of ``values`` (n,), one value per task.

    Equal values give an interval of width 0 for any ``n``. Raises ValueError if there are no values.
    """
    observed = np.asarray(values, dtype=np.float64)
    if observed.ndim != 1 or observed.size == 0 or not np.isfinite(observed).all():
        raise ValueError(
            f"the bootstrap needs a flat list of at least one finite values, got shape {observed.shape!r}"
        )
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(_resampled_means(observed, seed, resamples), [tail, 1.0 - tail])
    return Interval(float(observed.mean()), float(low), float(high), int(observed.size))


def paired_bootstrap(
    a: npt.ArrayLike, b: npt.ArrayLike, seed: int, *, confidence: float = 0.95, resamples: int = RESAMPLES
) -> Interval:
    """Returns the percentile bootstrap interval of mean(a) − mean(b) for the same tasks in the same order."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"pairs need two lists of the same length, got {first.shape!r} and {second.shape!r}")
    return bootstrap_mean(first - second, seed, confidence=confidence, resamples=resamples)


def paired_worse_p(differences: npt.ArrayLike, seed: int, resamples: int = RESAMPLES) -> float:
    """Returns the one-sided p-value of "the mean of the paired differences is below 0" (sign-flip test).

    If all non-zero differences have the same size the test is exact: it is the sign test, or McNemar's test for
    pairs of successes and failures. Otherwise the p-value is estimated from ``resamples`` random sign flips and the
    observed signs, so that it is never 0. Returns 1.0 if all differences are 0.
    """
    nonzero = np.asarray(differences, dtype=np.float64)
    nonzero = nonzero[nonzero != 0]
    if nonzero.size == 0:
        return 1.0
    sizes = np.abs(nonzero)
    if np.all(sizes == sizes[0]):
        return float(binom.sf(int((nonzero < 0).sum()) - 1, nonzero.size, 0.5))
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


def _resampled_means(values: FloatArray, seed: int, resamples: int) -> FloatArray:
    """Returns the means of samples with replacement, drawn as multinomial counts of the distinct values."""
    rng = np.random.default_rng(seed)
    distinct, counts = np.unique(values, return_counts=True)
    chunk = max(1, _CHUNK_CELLS // distinct.size)
    means = [
        rng.multinomial(values.size, counts / values.size, size=min(chunk, resamples - start)) @ distinct
        for start in range(0, resamples, chunk)
    ]
    return np.asarray(np.concatenate(means) / values.size)
