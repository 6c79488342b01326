"""Sequential statistics, valid at every time under continuous monitoring: e-processes and confidence sequences.

Under the null hypothesis an e-process starts at 1 and its expectation is at most 1, so the probability that it
*ever* reaches ``1/alpha`` is at most ``alpha`` (Ville's inequality). A test may therefore check it after every
block and reject at the first crossing. E-values are natural logarithms. All functions are pure and accept numbers
or arrays (element by element). ``rule`` decides on this evidence; ``interval`` has the statistics for fixed sample
sizes.

Sources: two-arm plug-in e-process: Turner, Ly, Grünwald 2021 (safestats); traffic mismatch: Lindon and Malek 2020;
betting: Waudby-Smith and Ramdas 2023; asymptotic confidence sequence: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas
2021.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betaln

FloatArray = npt.NDArray[np.float64]

PRIOR_WEIGHT = 0.18
"""Parameter of the prior Beta(.18, .18), whose posterior mean predicts the next block. Turner, Ly and Grünwald
found that this value loses the least power in the worst case."""

MISMATCH_WEIGHT = 40.0
"""Weight of the mismatch test's prior, in tasks. With 40 it detects gross mismatches quickly (20 % served instead
of 10 %) and small ones eventually."""


def posterior_mean(
    successes: npt.ArrayLike, tasks: npt.ArrayLike, prior_weight: float = PRIOR_WEIGHT
) -> FloatArray:
    """Returns the success rate's posterior mean, in (0, 1), under the prior Beta(prior_weight, prior_weight)."""
    y, n = np.asarray(successes, dtype=np.float64), np.asarray(tasks, dtype=np.float64)
    return np.asarray((y + prior_weight) / (n + 2.0 * prior_weight))


def two_arm_log_factor(
    tasks: tuple[npt.ArrayLike, npt.ArrayLike],
    successes: tuple[npt.ArrayLike, npt.ArrayLike],
    rates: tuple[npt.ArrayLike, npt.ArrayLike],
) -> FloatArray:
    """Returns the log of one block's factor of the two-arm Bernoulli e-process; 0 if an arm is empty or the rates
    are equal.

    Each pair is (arm a, arm b). ``rates`` are predictions in (0, 1) from earlier blocks. The factor is the block's
    likelihood under the two predicted rates divided by its likelihood under their task-weighted mean. Its
    expectation is at most 1 if both arms have the same true rate. If the prediction for a is above that for b, it
    is also at most 1 whenever the true rate of a is at most that of b.
    """
    n_a, n_b = (np.asarray(value, dtype=np.float64) for value in tasks)
    y_a, y_b = (np.asarray(value, dtype=np.float64) for value in successes)
    p_a, p_b = (np.asarray(value, dtype=np.float64) for value in rates)
    total = np.maximum(n_a + n_b, 1.0)
    pooled = np.where(n_a + n_b > 0, (n_a * p_a + n_b * p_b) / total, 0.5)
    return np.asarray(_log_ratio(n_a, y_a, p_a, pooled) + _log_ratio(n_b, y_b, p_b, pooled))


def one_arm_log_factor(
    tasks: npt.ArrayLike, successes: npt.ArrayLike, rate: npt.ArrayLike, reference: npt.ArrayLike
) -> FloatArray:
    """Returns the log of one block's factor against a known ``reference`` rate.

    It is the limit of the two-arm factor for infinitely many control tasks. It is valid only if the reference is
    exact: the uncertainty of a measured reference is not included.
    """
    n, y, p, p_0 = (np.asarray(value, dtype=np.float64) for value in (tasks, successes, rate, reference))
    return _log_ratio(n, y, p, p_0)


def _log_ratio(n: FloatArray, y: FloatArray, rate: FloatArray, reference: FloatArray) -> FloatArray:
    """Returns log(rate^y (1−rate)^(n−y) / (reference^y (1−reference)^(n−y)))."""
    return np.asarray(y * np.log(rate / reference) + (n - y) * np.log((1.0 - rate) / (1.0 - reference)))


def mismatch_log_e(
    candidate: npt.ArrayLike, control: npt.ArrayLike, share: npt.ArrayLike, weight: float = MISMATCH_WEIGHT
) -> FloatArray:
    """Returns the log e-value against "each task goes to the candidate with probability ``share``".

    This is Lindon and Malek's multinomial test for two arms, from the task counts S of the candidate and F of the
    control. The alternative mixes the candidate's probability over Beta(a, b), so its likelihood is
    B(a + S, b + F) / B(a, b); that of the null is share^S (1 − share)^F. Their ratio is a martingale under the null
    for *any* a and b. Here a = weight·share and b = weight·(1 − share), which centres the alternative on the null;
    for share = ½ this is the published form with a = b = weight/2. The order of the tasks does not matter. Counts
    need not be integers; shapes broadcast; ``share`` is in (0, 1).
    """
    s, f, rho = (np.asarray(value, dtype=np.float64) for value in (candidate, control, share))
    a, b = weight * rho, weight * (1.0 - rho)
    return np.asarray(betaln(a + s, b + f) - betaln(a, b) - s * np.log(rho) - f * np.log1p(-rho))


def hedged_log_capital(scores: npt.ArrayLike, mean: float, alpha: float, truncation: float = 0.5) -> FloatArray:
    """Returns the log capital, after each score, of betting against "the mean is ``mean``"; reject at log(1/alpha).

    ``scores`` are in [0, 1], with time along the last axis; for paired rewards a − b in [−1, 1] pass (a − b + 1)/2
    and a mean of ½. These are the predictable plug-in bets of Waudby-Smith and Ramdas in both directions,
    K = max(K⁺, K⁻)/2. ``truncation`` (their c) limits the share of the capital that one bet risks. ``alpha`` only
    affects the size of the bets.
    """
    x = np.asarray(scores, dtype=np.float64)
    t = np.arange(1, x.shape[-1] + 1, dtype=np.float64)
    running_mean = (0.5 + np.cumsum(x, axis=-1)) / (t + 1.0)
    variance = (0.25 + np.cumsum((x - running_mean) ** 2, axis=-1)) / (t + 1.0)
    past = np.concatenate([np.full((*x.shape[:-1], 1), 0.25), variance[..., :-1]], axis=-1)
    bet = np.sqrt(2.0 * math.log(2.0 / alpha) / (past * t * np.log1p(t)))
    up = np.cumsum(np.log1p(np.minimum(bet, truncation / mean) * (x - mean)), axis=-1)
    down = np.cumsum(np.log1p(-np.minimum(bet, truncation / (1.0 - mean)) * (x - mean)), axis=-1)
    return np.asarray(np.maximum(up, down) - math.log(2.0))


def asymptotic_half_width(
    standard_error: npt.ArrayLike, n: npt.ArrayLike, *, alpha: float, planned_n: float
) -> FloatArray:
    """Returns the half-width of the asymptotic confidence sequence of a mean, or of a difference of means.

    ``n`` is the total number of observations and ``standard_error`` that of the estimate at this n. The sequence is
    two-sided; its error over all times together is approximately ``alpha`` from moderate n on. It is tightest near
    ``planned_n`` and infinite for n = 0.
    """
    log_odds = 2.0 * math.log(1.0 / alpha)
    rho2 = (log_odds + math.log1p(log_odds)) / planned_n
    count = np.asarray(n, dtype=np.float64)
    time = np.maximum(count, 1.0) * rho2
    width = np.sqrt(2.0 * (time + 1.0) / time * np.log(np.sqrt(time + 1.0) / alpha))
    return np.asarray(np.where(count > 0, np.asarray(standard_error, dtype=np.float64) * width, np.inf))
