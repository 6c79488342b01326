"""95 % intervals of off-policy estimates: Wilson's interval with a variance that is steadied for few samples.

The normal interval is too short for weights with a long tail: with a few dozen effective samples of a logging
bandit it covers 84 to 92 %, because the estimated variance is too small exactly where few outcomes carry the
estimate. Three corrections of all methods but DR, with constants that were chosen on simulated logs
(``python -m benchmarks off-policy``):

- **Variance.** The estimated variance e² is raised towards B = φ p (1 − p) / n, the variance of the mean of n
  effective samples with mean p. B counts like m effective samples: v = e² + max(0, B − e²) · m / (m + n). φ ≤ 1 is
  the variance of the logged rewards as a share of that of yes or no with the same mean, so that graded rewards keep
  short intervals.
- **Shape.** Wilson's limits for p (1 − p) / v samples, which stay in [0, 1] and have a width where all rewards are
  equal.
- **Quantile.** Student's instead of the normal one, with a multiple of ν = (Σ w²)² / Σ w⁴ degrees of freedom, the
  number of draws that carry the variance.

DR has Wilson's shape too, but no constant that was chosen on logs. Its variance pools the one of the scores and the
one that ``off_policy_variance`` expects from the logged probabilities, each with the weight of its degrees of
freedom. The quantile is Student's with those of the expected one.
"""

from math import sqrt
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from upturn.arbiter.off_policy_variance import ScoreVariance
from upturn.interval import wilson_limits

LEVEL = 0.95
MIN_FREEDOM = 2.5
"""Least degrees of freedom, with a quantile of 3.6."""


TINY = 1e-12
"""Least variance of a mean reward, so that limits are finite."""


class _Constants(NamedTuple):
    prior: float
    """m: effective samples that B counts as."""
    samples: float
    """Samples in B that an effective one counts as; a difference of residuals varies less than rewards."""
    freedom: float
    """Degrees of freedom for each draw that carries the variance."""


_MEAN = _Constants(prior=10.0, samples=1.0, freedom=2.5)
_GAIN = _Constants(prior=10.0, samples=2.0, freedom=3.0)


class Precision(NamedTuple):
    """What an interval is computed from."""

    error: float
    """Estimated standard error."""
    effective: float
    """Effective samples."""
    freedom: float
    """ν: draws that carry the variance of the weights, above 0."""
    mean: float
    """Mean of the logged rewards."""
    dispersion: float
    """φ, in (0, 1]."""

    @classmethod
    def of(
        cls, rewards: NDArray[np.float64], draw_weights: NDArray[np.float64], error: float, effective: float
    ) -> Self:
        """Returns the precision of an estimate from the rewards (n,) and the weights of the draws (d,).

        φ starts with one outcome of yes or no, so that it is above 0 where all rewards are equal."""
        squares = draw_weights**2
        mean = float(rewards.mean())
        most = mean * (1.0 - mean)
        spread = float(((rewards - mean) ** 2).sum())
        dispersion = min((spread + most) / (len(rewards) * most), 1.0) if most > 0 else 1.0
        return cls(error, effective, float(squares.sum() ** 2 / (squares @ squares)), mean, dispersion)


def interval_of_robust(
    value: float, observed: ScoreVariance, expected: ScoreVariance, effective: float
) -> tuple[float, float]:
    """Returns the limits of a mean reward that is estimated by DR.

    ``observed``: the variance of its scores. ``expected``: that from the logged probabilities. A value outside of
    (0, 1) is moved inside as by half a success and half a failure beside ``effective`` samples."""
    mean = min(max(value, 0.0), 1.0)
    if not 0.0 < mean < 1.0:
        mean = (mean * effective + 0.5) / (effective + 1.0)
    total = observed.freedom + expected.freedom
    share = observed.freedom / total if total else 0.0
    variance = max(share * observed.variance + (1.0 - share) * expected.variance, TINY)
    quantile = float(stdtrit(max(expected.freedom, MIN_FREEDOM), 0.5 + LEVEL / 2.0))
    return wilson_limits(mean, mean * (1.0 - mean) / variance, 2.0 * float(ndtr(quantile)) - 1.0)


def interval_of_mean(value: float, precision: Precision) -> tuple[float, float]:
    """Returns the limits of a mean reward; a value outside of [0, 1] has those of the nearer end."""
    constants = _MEAN
    mean = min(max(value, 0.0), 1.0)
    quantile = _quantile(precision, constants)
    effective = precision.effective * constants.samples
    confidence = 2.0 * float(ndtr(quantile)) - 1.0
    if not 0.0 < mean < 1.0:
        return wilson_limits(mean, effective / precision.dispersion, confidence)
    bound = precision.dispersion * mean * (1.0 - mean) / effective
    variance = _steadied(precision.error**2, bound, effective, constants)
    return wilson_limits(mean, mean * (1.0 - mean) / variance, confidence)


def interval_of_gain(value: float, precision: Precision, change: float) -> tuple[float, float]:
    """Returns the limits of a difference of mean rewards, in [−1, 1].

    ``change`` is the mean of (w − 1)² over the draws, divided by their number: times the variance of a reward it is
    the variance that B stands for."""
    constants = _GAIN
    bound = change * precision.dispersion * precision.mean * (1.0 - precision.mean)
    variance = _steadied(precision.error**2, bound, precision.effective * constants.samples, constants)
    half = _quantile(precision, constants) * sqrt(variance)
    return max(value - half, -1.0), min(value + half, 1.0)


def _steadied(squared_error: float, bound: float, effective: float, constants: _Constants) -> float:
    return squared_error + max(0.0, bound - squared_error) * constants.prior / (constants.prior + effective)


def _quantile(precision: Precision, constants: _Constants) -> float:
    freedom = max((precision.freedom - 1.0) * constants.freedom, MIN_FREEDOM)
    return float(stdtrit(freedom, 0.5 + LEVEL / 2.0))
