"""The probability that each of several independent Student variables is the largest, by quadrature."""

from functools import lru_cache

import numpy as np
from scipy import special

from upturn.arbiter.policies.base import Array
from upturn.arbiter.posterior import shares_of_largest

MIN_FREEDOM = 3.0
"""Least degrees of freedom; the tails of fewer need more panels."""
MIN_SCALE = 1e-9
"""Smaller scales are computed as this one, so that ties stay ties."""
_LEVELS = np.array([1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.08, 0.16, 0.26, 0.38, 0.5])
"""Panels end at these quantiles of each variable and at their mirror images; 2e-9 of its mass is outside."""

Student = tuple[float, float, float]
"""Location, scale and degrees of freedom."""


@lru_cache(maxsize=8192)
def probability_largest_student(variables: tuple[Student, ...]) -> tuple[float, ...]:
    """Returns the probability of each variable to be the largest; the results sum to 1.

    The degrees of freedom are at least 3. The error is below 1e-6 (tested against an independent integration).
    """
    location, scale, freedom = (column[:, None] for column in np.array(variables, dtype=np.float64).T)
    if not (freedom >= MIN_FREEDOM).all():
        raise ValueError(f"the degrees of freedom must be at least {MIN_FREEDOM:g}, got {freedom.min():g}")
    scale = np.maximum(scale, MIN_SCALE)
    reach = -scale * special.stdtrit(freedom, _LEVELS)  # (K, levels), from the outermost to 0
    start = float((location - reach[:, :1]).max())
    is_contender = (location + reach[:, :1] >= start)[:, 0]
    best = np.zeros(len(variables))
    if is_contender.sum() == 1:
        best[is_contender] = 1.0
        return tuple(best.tolist())
    location, scale, freedom, reach = (values[is_contender] for values in (location, scale, freedom, reach))
    edges = np.concatenate(([start], (location - reach).ravel(), (location + reach).ravel()))
    normaliser = np.exp(special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2))
    normaliser /= scale * np.sqrt(freedom * np.pi)

    def density(points: Array) -> Array:
        scaled = (points - location) / scale
        return np.asarray(normaliser * (1 + scaled * scaled / freedom) ** (-(freedom + 1) / 2), dtype=np.float64)

    def below(points: Array) -> Array:
        return np.asarray(special.stdtr(freedom, (points - location) / scale), dtype=np.float64)

    best[is_contender] = shares_of_largest(edges[edges >= start], density, below)
    return tuple(best.tolist())
