"""Sequential evidence: published constants, hand-worked e-values, the supermartingale property by enumeration."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from upturn.deployment.sequential import (
    asymptotic_half_width,
    hedged_log_capital,
    mismatch_log_e,
    one_arm_log_factor,
    posterior_mean,
    two_arm_log_factor,
)


def test_two_arm_e_value_with_uniform_priors_is_1_then_16_ninths() -> None:
    """Both tasks of arm a succeed, both of arm b fail: predictions ½ and ½, then ⅔ and ⅓ against ½."""
    first = two_arm_log_factor((1, 1), (1, 0), (posterior_mean(0, 0, 1.0), posterior_mean(0, 0, 1.0)))
    second = two_arm_log_factor((1, 1), (1, 0), (posterior_mean(1, 1, 1.0), posterior_mean(0, 1, 1.0)))
    assert math.exp(first) == pytest.approx(1.0)
    assert math.exp(first + second) == pytest.approx(16 / 9)


def test_unequal_block_by_hand() -> None:
    """Two tasks of a predicted at .8 (one success), one of b at .2 (failure): pooled .6; .8·.2·.8 / (.6·.4·.4)."""
    factor = two_arm_log_factor((2, 1), (1, 0), (0.8, 0.2))
    assert math.exp(factor) == pytest.approx(0.8 * 0.2 * 0.8 / (0.6 * 0.4 * 0.4))


def test_empty_blocks_and_equal_predictions_are_no_evidence() -> None:
    assert two_arm_log_factor((0, 0), (0, 0), (0.9, 0.1)) == 0.0
    assert two_arm_log_factor((0, 7), (0, 3), (0.9, 0.1)) == 0.0
    assert two_arm_log_factor((4, 6), (1, 5), (0.3, 0.3)) == pytest.approx(0.0, abs=1e-15)


def expected_factor(tasks: tuple[int, int], predicted: tuple[float, float], truth: tuple[float, float]) -> float:
    """Returns the factor's expectation, summed over every outcome of the block."""
    return float(
        sum(
            binom.pmf(y_a, tasks[0], truth[0])
            * binom.pmf(y_b, tasks[1], truth[1])
            * math.exp(two_arm_log_factor(tasks, (y_a, y_b), predicted))
            for y_a, y_b in product(range(tasks[0] + 1), range(tasks[1] + 1))
        )
    )


@given(
    tasks=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    predicted=st.tuples(st.floats(0.02, 0.98), st.floats(0.02, 0.98)),
    truth=st.tuples(*[st.sampled_from((0.0, 1.0)) | st.floats(1e-9, 1 - 1e-9)] * 2),  # scipy overflows at 1e-308
)
def test_factor_expects_no_growth_if_a_is_not_better(
    tasks: tuple[int, int], predicted: tuple[float, float], truth: tuple[float, float]
) -> None:
    """One-sided null: a is predicted above b, but its true rate is at most that of b."""
    ordered = (max(predicted), min(predicted))
    null = (min(truth), max(truth))
    assert expected_factor(tasks, ordered, null) <= 1 + 1e-12
    assert expected_factor(tasks, predicted, (truth[0], truth[0])) <= 1 + 1e-12


def test_factor_expects_growth_if_the_prediction_is_true() -> None:
    assert expected_factor((3, 3), (0.8, 0.3), (0.8, 0.3)) > 1.3


def test_swapping_arms_and_outcomes_changes_nothing() -> None:
    plain = two_arm_log_factor((5, 2), (4, 0), (0.7, 0.4))
    assert two_arm_log_factor((2, 5), (0, 4), (0.4, 0.7)) == pytest.approx(float(plain))
    assert two_arm_log_factor((5, 2), (1, 2), (0.3, 0.6)) == pytest.approx(float(plain))


def test_one_arm_factor_is_two_arm_factor_with_infinite_control() -> None:
    control = 10_000_000
    two = two_arm_log_factor((5, control), (2, control // 2), (0.3, 0.5))
    # The infinite arm contributes nothing if it succeeds exactly at its known rate.
    assert one_arm_log_factor(5, 2, 0.3, 0.5) == pytest.approx(float(two), abs=1e-5)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.83])
def test_mismatch_martingale_expects_exactly_1(share: float) -> None:
    """Enumerates all splits of n tasks at the configured share."""
    for n in (1, 7, 30):
        split = np.arange(n + 1)
        mean = np.sum(binom.pmf(split, n, share) * np.exp(mismatch_log_e(split, n - split, share)))
        assert mean == pytest.approx(1.0, abs=1e-9)


def test_mismatch_at_one_half_is_the_published_form() -> None:
    """B(a₀ + S, a₀ + F) / B(a₀, a₀) over ½^(S+F) with a₀ = 1: for 3 and 1 tasks (3!·1!/5!) / (1/16)."""
    assert math.exp(mismatch_log_e(3, 1, 0.5, weight=2.0)) == pytest.approx(6 / 120 * 16)


def test_mismatch_detects_a_doubled_share_and_rarely_gives_a_false_alarm() -> None:
    rng = np.random.default_rng(5)
    n = np.arange(1, 2_001)

    def alarm_rate(share: float) -> float:
        candidate = np.cumsum(rng.random((500, n.size)) < share, axis=1)
        alarms = mismatch_log_e(candidate, n - candidate, 0.1) >= math.log(100)
        return float(alarms.any(axis=1).mean())

    assert alarm_rate(0.2) == 1.0, "20 % served for 10 % escapes 2,000 tasks with a chance far below 1e-9"
    # Ville: at most 1 % ever alarm; 500 runs exceed 14 alarms with a chance of 1e-4.
    assert alarm_rate(0.1) <= 14 / 500


def reference_capital(scores: list[float], mean: float, alpha: float) -> float:
    """Returns the hedged capital by its definition, one score after the other."""
    up = down = 1.0
    total, squares, variance = 0.0, 0.0, 0.25
    for t, x in enumerate(scores, start=1):
        bet = math.sqrt(2 * math.log(2 / alpha) / (variance * t * math.log(1 + t)))
        up *= 1 + min(bet, 0.5 / mean) * (x - mean)
        down *= 1 - min(bet, 0.5 / (1 - mean)) * (x - mean)
        total += x
        squares += (x - (0.5 + total) / (t + 1)) ** 2
        variance = (0.25 + squares) / (t + 1)
    return max(up, down) / 2


def test_hedged_capital_follows_its_definition() -> None:
    scores = [0.2, 0.9, 0.4, 1.0, 0.0, 0.7]
    path = np.exp(hedged_log_capital(scores, 0.4, 0.05))
    assert path[-1] == pytest.approx(reference_capital(scores, 0.4, 0.05))
    assert path[2] == pytest.approx(reference_capital(scores[:3], 0.4, 0.05))


def test_hedged_capital_is_symmetric_in_direction() -> None:
    scores = np.array([0.2, 0.9, 0.4, 1.0, 0.0, 0.7])
    np.testing.assert_allclose(hedged_log_capital(scores, 0.5, 0.05), hedged_log_capital(1 - scores, 0.5, 0.05))


def test_hedged_betting_detects_shifted_means_and_rarely_errs() -> None:
    """Beta(5, 5)-like scores; 1,500 looks each. Planned: 1.8 % at .50, 94 % at .52, 100 % at .55."""
    rng = np.random.default_rng(7)

    def rejection_rate(mean: float) -> float:
        paths = hedged_log_capital(rng.beta(10 * mean, 10 * (1 - mean), (600, 1_500)), 0.5, 0.05)
        return float((paths >= math.log(20)).any(axis=1).mean())

    # Ville: at most 5 %; 600 runs exceed 50 false alarms with a chance of 2e-4.
    assert rejection_rate(0.50) <= 50 / 600
    assert rejection_rate(0.52) >= 0.90, "94 % planned: 600 runs fall under 90 % with a chance of about 1e-4"
    assert rejection_rate(0.55) == 1.0


def test_asymptotic_sequence_by_hand_and_rarely_misses() -> None:
    n, alpha, planned, se = 400, 0.05, 1_000.0, 0.03
    rho2 = (2 * math.log(20) + math.log(1 + 2 * math.log(20))) / planned
    bound = math.sqrt(2 * (n * rho2 + 1) / (n**2 * rho2) * math.log(math.sqrt(n * rho2 + 1) / alpha))
    by_hand = se * math.sqrt(n) * bound
    assert asymptotic_half_width(se, n, alpha=alpha, planned_n=planned) == pytest.approx(by_hand)
    assert asymptotic_half_width(se, 0, alpha=alpha, planned_n=planned) == math.inf

    rng = np.random.default_rng(11)
    looks = np.arange(50, 2_001)
    means = np.cumsum(rng.random((400, 2_000)) < 0.7, axis=1)[:, 49:] / looks
    errors = np.sqrt(means * (1 - means) / looks)
    half_widths = asymptotic_half_width(errors, looks, alpha=alpha, planned_n=planned)
    missed = (np.abs(means - 0.7) > half_widths).any(axis=1)
    # Asymptotically at most 5 % over all looks; 400 runs exceed 36 with a chance of 4e-4.
    assert missed.sum() <= 36
