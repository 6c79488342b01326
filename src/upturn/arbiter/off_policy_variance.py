"""The variance of a doubly robust estimate, expected from the logged probabilities.

The score of decision i is ``Σ_a π_a q_a + w (r − q(chosen))``. Given what was known before it, its variance is

    ``Σ_a π_a² / p_a · e_a − (Σ_a π_a (m_a − q_a))²``,  with ``e_a = σ_a² + (m_a − q_a)²``

for the target's probabilities π, the logged p, and mean m and variance σ² of each version's rewards. The weights
come in as they are expected, not as they were drawn, so that a log in which few heavy weights happened to be drawn
does not look precise. Their sum over a log is what a martingale's central limit theorem needs (Hall and Heyde 1980,
corollary 3.1; Zhan et al. 2021 use it for logs of bandits). The variance of ``Σ_a π_a m_a`` over tasks is added.

m and σ² are estimated by family and version; the degrees of freedom are those of Welch and Satterthwaite, from the
number of outcomes behind each σ². What they miss, a policy that chooses within a family by what decides the
outcome, only the squared scores show. Intervals pool both variances, weighted by their degrees of freedom.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class Options(NamedTuple):
    """Every version that the target may choose for a decision, (m,): one row per decision and version."""

    decisions: Indices
    """Index of the decision, 0 to n − 1."""
    cells: Indices
    """Index of family and version."""
    shares: Array
    """π, the target's probability."""
    probabilities: Array
    """p, the logged probability; above 0."""
    predictions: Array
    """q, of the reward model."""


class Outcomes(NamedTuple):
    """The rewards, (n,), and the cell of the chosen version."""

    rewards: Array
    cells: Indices
    versions: Indices
    """By cell: index of its version."""


class ScoreVariance(NamedTuple):
    """An estimated variance of the mean of the scores."""

    variance: float
    freedom: float
    """Degrees of freedom of the estimate; 0 = nothing has been observed."""


class _Moments(NamedTuple):
    """By cell."""

    counts: Array
    means: Array
    variances: Array


def freedom_of(deviations: Array) -> float:
    """Returns the degrees of freedom of the variance that is estimated from n independent deviations from the mean.

    They are those of the scaled chi-squared distribution with the same mean and variance (Satterthwaite 1946):
    ``2 n / (κ − 1)`` for the kurtosis κ; n for normal values, and few where few values carry the variance."""
    squares = deviations * deviations
    total = float(squares.sum())
    if not total:
        return 0.0
    count = len(deviations)
    excess = count * float(squares @ squares) / total**2 - 1.0
    return 2.0 * count / max(excess, 2.0 / count)


def expected_variance(options: Options, outcomes: Outcomes) -> ScoreVariance:
    """Returns the expected variance of a doubly robust estimate, for n independent decisions."""
    count = len(outcomes.rewards)
    moments = _moments(outcomes)
    decisions, cells, shares = options.decisions, options.cells, options.shares
    means = moments.means[cells]
    weights = shares * shares / options.probabilities
    errors = means - options.predictions
    drift = np.bincount(decisions, shares * errors, count)
    within = weights @ (moments.variances[cells] + errors * errors) - drift @ drift
    between = np.bincount(decisions, shares * means, count).var(ddof=1) * count if count > 1 else 0.0
    parts = np.bincount(cells, weights * moments.variances[cells], len(moments.means))
    known = float((parts**2 / np.maximum(moments.counts, 1.0)).sum())
    freedom = float(parts.sum()) ** 2 / known if known else 0.0
    return ScoreVariance(float(within + between) / count**2, freedom)


def _moments(outcomes: Outcomes) -> _Moments:
    """Returns number, mean and variance of the rewards in each cell.

    A mean has the version's mean as one further outcome, and that one the overall mean. A variance has the overall
    one as one degree of freedom."""
    rewards, cells, versions = outcomes
    size = len(versions)
    overall = float(rewards.mean())
    spread = min(float(rewards.var()) + overall * (1.0 - overall) / len(rewards), 0.25)
    counts = np.bincount(cells, minlength=size).astype(np.float64)
    sums = np.bincount(cells, rewards, size)
    of_version = np.bincount(versions, counts)[versions]
    version_means = (np.bincount(versions, sums)[versions] + overall) / (of_version + 1.0)
    present = np.maximum(counts, 1.0)
    squares = np.maximum(np.bincount(cells, rewards * rewards, size) - sums * sums / present, 0.0)
    return _Moments(counts, (sums + version_means) / (counts + 1.0), (squares + spread) / present)
