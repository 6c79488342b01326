"""Beta posteriors of success rates, and the probability that each of several rates is the highest.

Computed by quadrature, without sampling: equal posteriors give equal probabilities.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import special

Shape = tuple[float, float]
"""The two parameters of a Beta distribution."""
Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Panel edges are at these quantiles of every posterior and at their mirror images, so that narrow and wide
# posteriors are both resolved; 2e-12 of a posterior's mass is outside of the outermost two.
_LEVELS = np.array([1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.08, 0.16, 0.26, 0.38, 0.5])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


@dataclass(frozen=True, slots=True)
class Posterior:
    """A Beta posterior of a success rate (1, 1 = uniform); ``probability_best`` needs parameters of at least 1."""

    alpha: float
    beta: float

    @property
    def mean(self) -> float:
        """The mean of the success rate."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def deviation(self) -> float:
        """The standard deviation of the success rate."""
        total = self.alpha + self.beta
        return sqrt(self.alpha * self.beta / (total + 1)) / total

    @property
    def weight(self) -> float:
        """Number of outcomes in the posterior; discounted and borrowed ones count partly."""
        return self.alpha + self.beta - 2

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Returns the equal-tailed credible interval with probability ``level``."""
        tail = (1 - level) / 2
        low = special.betaincinv(self.alpha, self.beta, tail)
        return float(low), float(special.betainccinv(self.alpha, self.beta, tail))


@lru_cache(maxsize=8192)
def probability_best(shapes: tuple[Shape, ...]) -> tuple[float, ...]:
    """Returns for each Beta posterior the probability that its rate is the highest; the results sum to 1.

    ``P(a is best) = ∫ pdf_a(x) Π_{b≠a} cdf_b(x) dx``, the distribution that Thompson sampling draws from, by
    four-point Gauss–Legendre quadrature on panels between quantiles of all posteriors. A posterior that is entirely
    below another one (except for 2e-12 of their mass) gets 0. Parameters must be at least 1, so that densities are
    bounded. The error is below 1e-6 (tested against an independent integration).
    """
    alpha, beta = np.array(shapes, dtype=np.float64).T[:, :, None]  # each (K, 1)
    lowest = special.betaincinv(alpha, beta, _LEVELS[0])
    is_contender = special.betainccinv(alpha, beta, _LEVELS[0])[:, 0] >= lowest.max()
    best = np.zeros(len(shapes))
    best[is_contender] = _probability_best(alpha[is_contender], beta[is_contender], float(lowest.max()))
    return tuple(best.tolist())


def _probability_best(alpha: NDArray[np.float64], beta: NDArray[np.float64], start: float) -> NDArray[np.float64]:
    """Returns P(best) of the contenders, shape (K,); ``start`` is a lower bound of the best rate.

    ``alpha`` and ``beta`` are (K, 1).
    """
    if len(alpha) == 1:
        return np.ones(1)
    quantiles = (special.betaincinv(alpha, beta, _LEVELS), special.betainccinv(alpha, beta, _LEVELS))
    edges = np.concatenate(([start, 1.0], *(points.ravel() for points in quantiles)))

    def density(points: NDArray[np.float64]) -> NDArray[np.float64]:
        logarithm = (
            special.xlogy(alpha - 1, points) + special.xlog1py(beta - 1, -points) - special.betaln(alpha, beta)
        )
        return np.asarray(np.exp(logarithm), dtype=np.float64)

    def below(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(special.betainc(alpha, beta, points), dtype=np.float64)

    return shares_of_largest(edges[edges >= start], density, below)


def shares_of_largest(edges: NDArray[np.float64], density: Curve, below: Curve) -> NDArray[np.float64]:
    """Returns P(largest) of K independent variables by quadrature, shape (K,); the results sum to 1.

    ``edges``: ends of the panels, unsorted. ``density`` and ``below`` map points (P,) to densities and distribution
    functions (K, P).
    """
    edges = np.unique(edges)
    half = np.diff(edges)[:, None] / 2
    points = ((edges[:-1, None] + edges[1:, None]) / 2 + half * _NODES).ravel()
    weights = (half * _WEIGHTS).ravel()
    best = np.asarray((density(points) * _product_of_others(below(points))) @ weights, dtype=np.float64)
    return np.asarray(best / best.sum(), dtype=np.float64)


def _product_of_others(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns rows whose row ``k`` is the product of all other rows; ``rows`` is (K, points)."""
    result = np.ones_like(rows)
    for row in range(1, len(rows)):
        result[row] = result[row - 1] * rows[row - 1]
    after = np.ones_like(rows[0])
    for row in range(len(rows) - 2, -1, -1):
        after = after * rows[row + 1]
        result[row] *= after
    return result
