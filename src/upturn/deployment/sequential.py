"""Evidence that stays valid under continuous monitoring: betting on two randomised arms, and the traffic-split
test.

Under the null hypothesis an e-process starts at 1 and its expectation never exceeds 1. The probability that it
*ever* reaches ``1/alpha`` is at most ``alpha`` (Ville's inequality), so a test may look after every observation and
act on the first crossing. All values are natural logarithms; all functions are pure and work element by element.

Not here: decisions on the evidence (``rule``), and fixed-sample intervals (``interval``).

Sources: betting on bounded means: Waudby-Smith and Ramdas 2023 (arXiv 2010.09686); the traffic split: Lindon and
Malek 2020 (arXiv 2011.03567)."""

import numpy as np
import numpy.typing as npt
from scipy.special import betaln

FloatArray = npt.NDArray[np.float64]

EFFECTS = (0.02, 0.04, 0.08, 0.16, 0.32)
"""Differences that bets are sized for, each with an equal share of the initial capital. One of them lies within a
factor of sqrt(2) of any difference from .014 to .45; spreading the capital costs at most log(5) of evidence."""

MAX_LOSS = 0.95
"""Largest share of its capital that a bet can lose in one observation."""

PRIOR_TASKS = 1.0
"""Observations that the prior of an arm's mean and mean square is worth. The prior mean of both is ½, so that the
variance starts at ¼."""

MISMATCH_WEIGHT = 40.0
"""Prior episodes of the mismatch test's alternative. A prior worth 40 episodes adapts quickly to gross mismatches
(10 % served as 20 %) and still detects small ones."""


def arm_score(
    is_candidate: npt.ArrayLike, outcome: npt.ArrayLike, share: npt.ArrayLike, centre: npt.ArrayLike
) -> FloatArray:
    """An observation's estimate of share·(1 − share) times the difference candidate − control; unbiased.

    ``share`` is the probability with which the observation was assigned to the candidate, ``outcome`` lies in [0,
    1], and ``centre`` is any number fixed before the observation; near the mean outcome the variance is smallest.
    Where the outcome does not depend on the arm the expectation is exactly 0, however outcomes drift over time."""
    rho = np.asarray(share, dtype=np.float64)
    sign = np.where(is_candidate, 1.0 - rho, -rho)
    return np.asarray(sign * (np.asarray(outcome, dtype=np.float64) - np.asarray(centre, dtype=np.float64)))


def least_score(share: npt.ArrayLike, centre: npt.ArrayLike, direction: npt.ArrayLike) -> FloatArray:
    """The least value of ``direction`` · ``arm_score`` over both arms and all outcomes in [0, 1]; direction is
    ±1."""
    rho, m = np.asarray(share, dtype=np.float64), np.asarray(centre, dtype=np.float64)
    up = np.maximum((1.0 - rho) * m, rho * (1.0 - m))
    down = np.maximum((1.0 - rho) * (1.0 - m), rho * m)
    return np.asarray(-np.where(np.asarray(direction) > 0, up, down))


def bet_log_factors(
    gain: npt.ArrayLike,
    least: npt.ArrayLike,
    variance: npt.ArrayLike,
    scale: npt.ArrayLike = 1.0,
    *,
    effects: npt.ArrayLike = EFFECTS,
) -> FloatArray:
    """Log of the factor by which each effect's capital grows, (E, …) for E ``effects``, each times ``scale``.

    The capital of effect δ bets λ = δ / variance, about the growth-optimal bet where the true difference is δ,
    capped so that no observation loses more than ``MAX_LOSS`` of it. The factor is 1 + λ·gain. ``least`` is the
    least possible gain, below 0; it, the variance and so the bet must be fixed before the observation. Where the
    expected gain is at most 0 the factor's expectation is at most 1."""
    sizes = np.asarray(effects, dtype=np.float64).reshape((-1,) + (1,) * np.ndim(gain))
    spread = np.maximum(np.asarray(variance, dtype=np.float64), 1e-9)
    bet = np.minimum(
        sizes * np.asarray(scale, dtype=np.float64) / spread, MAX_LOSS / -np.asarray(least, dtype=np.float64)
    )
    return np.asarray(np.log1p(bet * np.asarray(gain, dtype=np.float64)))


def log_e_value(log_capital: FloatArray, weights: npt.ArrayLike | None = None) -> FloatArray:
    """Log of the mean capital over the effects, which are the first axis.

    ``weights`` are the effects' shares of the initial capital, which sum to 1; None = equal shares."""
    if weights is None:
        return np.asarray(np.logaddexp.reduce(log_capital, axis=0) - np.log(log_capital.shape[0]))
    logs = np.log(np.asarray(weights, dtype=np.float64)).reshape((-1,) + (1,) * (log_capital.ndim - 1))
    return np.asarray(np.logaddexp.reduce(log_capital + logs, axis=0))


def mismatch_log_e(
    candidate: npt.ArrayLike,
    control: npt.ArrayLike,
    share: npt.ArrayLike,
    weight: float = MISMATCH_WEIGHT,
) -> FloatArray:
    """Log e-value against "every episode went to the candidate with probability ``share``", from the counts so far.

    Lindon and Malek's multinomial test for two arms: the alternative mixes the candidate's probability over Beta(a,
    b); the mixed likelihood is B(a + S, b + F) / B(a, b) and the null's share^S (1 − share)^F, where S and F count
    the candidate's and the control's episodes. The ratio of two likelihoods is a martingale under the null for
    *any* a and b; a = weight·share and b = weight·(1 − share) centre the alternative on the null, which for share =
    ½ is their published form with a = b = weight/2. The order of the episodes does not matter. Counts need not be
    whole; shapes broadcast; ``share`` lies in (0, 1)."""
    s, f, rho = (np.asarray(value, dtype=np.float64) for value in (candidate, control, share))
    a, b = weight * rho, weight * (1.0 - rho)
    return np.asarray(betaln(a + s, b + f) - betaln(a, b) - s * np.log(rho) - f * np.log1p(-rho))
