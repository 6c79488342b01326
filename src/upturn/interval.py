"""Intervals of rates, means and paired differences for a fixed sample size.

They are not valid if the data are tested repeatedly while they arrive; ``deployment`` has the tests for that case.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, stdtrit

from upturn.records import Result

FloatArray = npt.NDArray[np.float64]

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
    return Interval(successes / n, *wilson_limits(successes / n, n, confidence), n)


def wilson_limits(mean: float, samples: float, confidence: float = 0.95) -> tuple[float, float]:
    """Returns Wilson's score limits for a mean in [0, 1] of this many samples; they need not be whole.

    Outcomes in [0, 1] vary at most as much as yes or no with the same mean.
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    spread = z * z / samples
    centre = (mean + spread / 2.0) / (1.0 + spread)
    half = z / (1.0 + spread) * sqrt(mean * (1.0 - mean) / samples + spread / (4.0 * samples))
    # At 0 and 1 the limit is exactly 0 and 1; the formula would have a rounding error.
    return 0.0 if mean == 0.0 else centre - half, 1.0 if mean == 1.0 else centre + half


def clopper_pearson_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Returns the exact (Clopper–Pearson) interval of a success rate; its coverage is at least ``confidence``."""
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"successes must be in 0..n with n > 0, got {successes!r} of {n!r}")
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, tail))
    high = 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1.0 - tail))
    return Interval(successes / n, low, high, n)


def bootstrap_mean(
    values: npt.ArrayLike,
    seed: int,
    *,
    clusters: Sequence[str] | None = None,
    bounds: tuple[float, float] | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """Returns the percentile bootstrap interval of the mean of ``values`` (n,), one value per task.

    ``clusters`` (n,) names the cluster of each value; clusters are resampled as a whole. None = every value is a
    cluster of its own. With larger clusters the distances of the limits from the mean are multiplied by
    sqrt(G/(G − 1)) · t(G − 1)/z for G clusters, since few clusters make the percentile limits too narrow (Cameron,
    Gelbach and Miller 2008, section 3).

    If the clusters' means are all equal, the resamples are too. Then ``bounds``, the smallest and the largest
    possible value, give the exact limits: by Clopper and Pearson, at most a share of 1 − (tail)^(1/G) of clusters
    differs, by as much as the bounds allow. Without bounds such an interval has width 0.

    Raises ValueError if there are no values, or values outside of the bounds.
    """
    observed = np.asarray(values, dtype=np.float64)
    if observed.ndim != 1 or observed.size == 0 or not np.isfinite(observed).all():
        raise ValueError(
            f"the bootstrap needs a flat list of at least one finite values, got shape {observed.shape!r}"
        )
    if bounds is not None and not (bounds[0] <= observed.min() and observed.max() <= bounds[1]):
        raise ValueError(f"values from {observed.min()} to {observed.max()} are not within the bounds {bounds!r}")
    tail = (1.0 - confidence) / 2.0
    mean = float(observed.mean())
    sums, sizes = by_cluster(observed, clusters)
    if bounds is not None and np.ptp(sums / sizes) == 0.0:
        share = clopper_pearson_interval(0, sums.size, confidence).high
        low, high = mean - share * (mean - bounds[0]), mean + share * (bounds[1] - mean)
        return Interval(mean, low, high, int(observed.size))
    low, high = np.quantile(_resampled_means(sums, sizes, seed, resamples), [tail, 1.0 - tail])
    if (sizes > 1).any() and sums.size > 1:
        freedom = sums.size - 1.0
        widening = sqrt(sums.size / freedom) * stdtrit(freedom, 1.0 - tail) / NormalDist().inv_cdf(1.0 - tail)
        low, high = mean - widening * (mean - low), mean + widening * (high - mean)
        if bounds is not None:
            low, high = max(low, bounds[0]), min(high, bounds[1])
    return Interval(mean, float(low), float(high), int(observed.size))


def paired_bootstrap(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    seed: int,
    *,
    clusters: Sequence[str] | None = None,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Returns the 95 % interval of mean(a) − mean(b) for the same tasks in the same order; ``bounds`` are those of
    the differences."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"pairs need two lists of the same length, got {first.shape!r} and {second.shape!r}")
    return bootstrap_mean(first - second, seed, clusters=clusters, bounds=bounds)


def welch_difference(a: npt.ArrayLike, b: npt.ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns the difference mean(a) − mean(b) of independent samples with Welch's t interval.

    Degrees of freedom by Welch and Satterthwaite; without any variance the interval has width 0. Raises ValueError
    for fewer than two values, or values that are not finite.
    """
    first, second = (np.asarray(values, dtype=np.float64) for values in (a, b))
    if min(first.size, second.size) < 2 or not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError(f"Welch's interval needs two or more finite values, got {first.size} and {second.size}")
    change = float(first.mean() - second.mean())
    parts = [float(values.var(ddof=1)) / values.size for values in (first, second)]
    variance, n = sum(parts), first.size + second.size
    if variance == 0.0:
        return Interval(change, change, change, n)
    freedom = variance**2 / (parts[0] ** 2 / (first.size - 1) + parts[1] ** 2 / (second.size - 1))
    half = float(stdtrit(freedom, 0.5 + confidence / 2.0)) * sqrt(variance)
    return Interval(change, change - half, change + half, n)


def by_cluster(values: FloatArray, clusters: Sequence[str] | None) -> tuple[FloatArray, FloatArray]:
    """Returns the sum and the number of values of every cluster, both (G,), in the order of first appearance."""
    if clusters is None:
        return values, np.ones_like(values)
    if len(clusters) != values.size:
        raise ValueError(f"{values.size} values need one cluster each, got {len(clusters)}")
    index: dict[str, int] = {}
    numbers = [index.setdefault(name, len(index)) for name in clusters]
    sums = np.zeros(len(index))
    np.add.at(sums, numbers, values)
    return sums, np.bincount(numbers).astype(np.float64)


def _resampled_means(sums: FloatArray, sizes: FloatArray, seed: int, resamples: int) -> FloatArray:
    """Returns the means of clusters drawn with replacement, as multinomial counts of the distinct clusters."""
    rng = np.random.default_rng(seed)
    if (sizes == 1).all():  # much faster than by rows
        distinct_sums, counts = np.unique(sums, return_counts=True)
        distinct_sizes = np.ones_like(distinct_sums)
    else:
        distinct, counts = np.unique(np.column_stack([sums, sizes]), axis=0, return_counts=True)
        distinct_sums, distinct_sizes = np.ascontiguousarray(distinct.T)
    chunk = max(1, _CHUNK_CELLS // counts.size)
    means = []
    for start in range(0, resamples, chunk):
        drawn = rng.multinomial(sums.size, counts / sums.size, size=min(chunk, resamples - start))
        means.append(drawn @ distinct_sums / (drawn @ distinct_sizes))
    return np.concatenate(means)
