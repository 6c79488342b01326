"""The probability that each of several independent normal variables is the largest.

``P(a is largest) = ∫ pdf_a(t) Π_{b≠a} cdf_b(t) dt``, by quadrature, without sampling. Two variables have a closed
form.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

MIN_DEVIATION = 1e-9
"""Smaller standard deviations are computed as this one, so that ties stay ties."""
_REACH = 5.6
"""A variable whose ``mean + 5.6 deviations`` is below another's ``mean - 5.6 deviations`` gets probability 0;
the neglected mass is below 2e-8 for each pair."""
_STEP = 0.7
"""Width of a step of the trapezoidal rule in the smallest standard deviation. The largest of many variables varies
less than each of them: for 10 to 300 equal ones the error is at most 3e-7; it is 3e-6 with .9."""
_MANY = 27
"""The largest of more variables is below the 27th largest mean with a probability of at most .5^27 = 7e-9."""
_MAX_POINTS = 192
"""Above this number of points, the range is divided at quantiles of the variables instead."""
_QUANTILES = np.array([-5.6, -4.6, -3.6, -2.5, -1.6, -0.8, 0.0, 0.8, 1.6, 2.5, 3.6, 4.6, 5.6])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


def probability_largest(means: Array, deviations: Array) -> Array:
    """Returns the probability of each variable to be the largest; the results sum to 1.

    Both arguments are (K,); the deviations are at least 0. The error is below 1e-6 (tested against an independent
    integration).
    """
    deviations = np.maximum(deviations, MIN_DEVIATION)
    if len(means) == 2:
        first = special.ndtr((means[0] - means[1]) / np.hypot(deviations[0], deviations[1]))
        return np.array([first, 1 - first])
    lowest = float((means - _REACH * deviations).max())
    contenders = np.flatnonzero(means + _REACH * deviations >= lowest)
    best = np.zeros(len(means))
    if len(contenders) == 1:
        best[contenders] = 1.0
        return best
    inside, spread = means[contenders], deviations[contenders]
    if inside.min() == inside.max() and spread.min() == spread.max():
        best[contenders] = 1 / len(contenders)
        return best
    if len(inside) > _MANY:
        lowest = max(lowest, float(np.partition(inside, -_MANY)[-_MANY]))
    points, weights = _grid(inside, spread, lowest)
    scaled = (points - inside[:, None]) / spread[:, None]
    below = special.ndtr(scaled)
    np.maximum(below, 1e-300, out=below)
    whole = below.prod(axis=0) * weights  # the distribution function of the largest
    np.multiply(scaled, scaled, out=scaled)
    scaled *= -0.5
    ratio = np.exp(scaled, out=scaled)
    ratio /= below
    share = ratio @ whole / spread
    best[contenders] = share / share.sum()
    return best


def _grid(means: Array, deviations: Array, lowest: float) -> tuple[Array, Array]:
    """Returns points and weights of a quadrature from ``lowest`` to the highest value that any variable reaches."""
    highest = float((means + _REACH * deviations).max())
    count = int((highest - lowest) / (_STEP * float(deviations.min()))) + 2
    if count <= _MAX_POINTS:
        # The integrand is 0 at both ends, so that the trapezoidal rule needs no correction there.
        points = np.linspace(lowest, highest, count)
        return points, np.full(count, points[1] - points[0])
    edges = np.unique(means[:, None] + deviations[:, None] * _QUANTILES)
    edges = np.concatenate(([lowest], edges[edges > lowest]))
    half = np.diff(edges)[:, None] / 2
    points = ((edges[:-1, None] + edges[1:, None]) / 2 + half * _NODES).ravel()
    return points, (half * _WEIGHTS).ravel()
