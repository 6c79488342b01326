"""Evidence that stays valid under continuous monitoring: e-processes, betting and confidence sequences.

Under the null an e-process starts at 1 and has expectation at most 1: the chance that it *ever* reaches ``1/alpha``
is at most ``alpha`` (Ville's inequality). So the test may look after every block and act on the first crossing. All
values are natural logarithms; all functions are pure and take numbers or arrays (element by element).

Not here: decisions on the evidence (``rule``), and fixed-sample intervals (``interval``).

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
"""Of the Beta(.18, .18) whose posterior mean predicts the next block: the value that Turner, Ly and Grünwald found
to lose the least power in the worst case."""

MISMATCH_WEIGHT = 40.0
"""Prior tasks of the mismatch test's alternative: worth 40 tasks, it bends quickly to gross mismatches (10 % served
as 20 %) and still learns small ones."""


def posterior_mean(
    successes: npt.ArrayLike, tasks: npt.ArrayLike, prior_weight: float = PRIOR_WEIGHT
) -> FloatArray:
    """Mean of the success rate under Beta(prior_weight, prior_weight); strictly inside (0, 1)."""
    return np.asarray(
        (np.asarray(successes, dtype=np.float64) + prior_weight)
        / (np.asarray(tasks, dtype=np.float64) + 2.0 * prior_weight)
    )


def two_arm_log_factor(
    tasks: tuple[npt.ArrayLike, npt.ArrayLike],
    successes: tuple[npt.ArrayLike, npt.ArrayLike],
    rates: tuple[npt.ArrayLike, npt.ArrayLike],
) -> FloatArray:
    """Log of one block's factor of the two-arm Bernoulli e-process; 0 for an empty block or equal rates.

    Each pair is (arm a, arm b). ``rates`` are guesses in (0, 1) made before the block. The factor is the block's
    likelihood under the two guesses over its likelihood under their task-weighted mean.
    Its expectation is at most 1 when both arms have the same rate, and where the guesses have a above b, also
    whenever the true rate of a is not above that of b: it rises with the one and falls with the other.
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
    """Log of one block's factor against a known ``reference`` rate: the two-arm factor with infinitely many control
    tasks.

    Valid if the reference is exact: the uncertainty of a measured reference is not included.
    """
    n, y, guess, known = (np.asarray(value, dtype=np.float64) for value in (tasks, successes, rate, reference))
    return _log_ratio(n, y, guess, known)


def _log_ratio(n: FloatArray, y: FloatArray, rate: FloatArray, reference: FloatArray) -> FloatArray:
    """log of rate^y (1−rate)^(n−y) over the same with ``reference``."""
    return np.asarray(y * np.log(rate / reference) + (n - y) * np.log((1.0 - rate) / (1.0 - reference)))


def mismatch_log_e(
    candidate: npt.ArrayLike,
    control: npt.ArrayLike,
    share: npt.ArrayLike,
    weight: float = MISMATCH_WEIGHT,
) -> FloatArray:
    """Log e-value against "every task went to the candidate with probability ``share``", from the counts so far.

    Lindon and Malek's multinomial test for two arms: the alternative mixes the candidate's probability over
    Beta(a, b); the mixed likelihood is B(a + S, b + F) / B(a, b) and the null's share^S (1 − share)^F, where S
    and F count the candidate's and the control's tasks. The ratio of two likelihoods is a martingale under the null
    for *any* a and b; a = weight·share and b = weight·(1 − share) centre the alternative on the null, which for
    share = ½ is their published form with a = b = weight/2. The order of the tasks does not matter.
    Counts need not be whole; shapes broadcast; ``share`` lies in (0, 1).
    """
    s, f, rho = (np.asarray(value, dtype=np.float64) for value in (candidate, control, share))
    a, b = weight * rho, weight * (1.0 - rho)
    return np.asarray(betaln(a + s, b + f) - betaln(a, b) - s * np.log(rho) - f * np.log1p(-rho))


def hedged_log_capital(scores: npt.ArrayLike, mean: float, alpha: float, truncation: float = 0.5) -> FloatArray:
    """Log capital after each score of betting on both sides against "the mean is ``mean``"; reject at log(1/alpha).

    ``scores`` lie in [0, 1], time along the last axis; for paired rewards a − b in [−1, 1] pass (a − b + 1)/2
    against ½. Predictable plug-in bets of Waudby-Smith and Ramdas, K = max(K⁺, K⁻)/2; ``truncation``
    (their c) keeps a bet from risking more than that share of the capital. ``alpha`` only tunes the bets' size.
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
    """Half-width of the asymptotic confidence sequence of a mean (or difference) at ``n`` observations in all.

    Two-sided with error ``alpha`` over all times together, approximately, from moderate n on; tightest near
    ``planned_n``. ``standard_error`` is the estimate's, at this n. Infinite for n = 0.
    """
    log_odds = 2.0 * math.log(1.0 / alpha)
    rho2 = (log_odds + math.log1p(log_odds)) / planned_n
    count = np.asarray(n, dtype=np.float64)
    time = np.maximum(count, 1.0) * rho2
    width = np.sqrt(2.0 * (time + 1.0) / time * np.log(np.sqrt(time + 1.0) / alpha))
    return np.asarray(np.where(count > 0, np.asarray(standard_error, dtype=np.float64) * width, np.inf))
