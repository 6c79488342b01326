"""Sequential evidence: hand-worked factors, the supermartingale property by enumeration, published constants."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from upturn.deployment.sequential import (
    EFFECTS,
    MAX_LOSS,
    arm_score,
    bet_log_factors,
    least_score,
    log_e_value,
    mismatch_log_e,
)

UNIT = st.floats(0.0, 1.0)
SHARE = st.floats(0.02, 0.98)


@given(share=SHARE, centre=UNIT, outcome=UNIT)
def test_score_expects_nothing_where_the_outcome_does_not_depend_on_the_arm(
    share: float, centre: float, outcome: float
) -> None:
    expected = share * arm_score(True, outcome, share, centre) + (1 - share) * arm_score(
        False, outcome, share, centre
    )
    assert expected == pytest.approx(0.0, abs=1e-12)


@given(share=SHARE, centre=UNIT, candidate=UNIT, control=UNIT)
def test_score_expects_the_difference_of_the_means(
    share: float, centre: float, candidate: float, control: float
) -> None:
    expected = share * arm_score(True, candidate, share, centre) + (1 - share) * arm_score(
        False, control, share, centre
    )
    assert expected == pytest.approx(share * (1 - share) * (candidate - control), abs=1e-12)


@given(share=SHARE, centre=UNIT, direction=st.sampled_from((1, -1)))
def test_least_score_is_the_least_over_arms_and_outcomes(share: float, centre: float, direction: int) -> None:
    lowest = min(
        direction * float(arm_score(is_candidate, outcome, share, centre))
        for is_candidate in (True, False)
        for outcome in (0.0, 1.0)
    )
    assert least_score(share, centre, direction) == pytest.approx(lowest, abs=1e-12)


def test_factors_by_hand() -> None:
    """A success of the candidate at share ½ with centre ½: gain ¼, least −¼, variance ¼: bets 4δ, at most 3.8."""
    factors = bet_log_factors(np.array([0.25]), np.array([-0.25]), np.array([0.25]))
    expected = [math.log(1 + min(4 * effect, MAX_LOSS / 0.25) * 0.25) for effect in EFFECTS]
    np.testing.assert_allclose(factors[:, 0], expected, rtol=1e-12)
    assert math.exp(factors[-1, 0]) == pytest.approx(1.32)


def test_no_observation_loses_more_than_the_cap() -> None:
    factors = bet_log_factors(np.array([-0.5]), np.array([-0.5]), np.array([0.0]))
    np.testing.assert_allclose(np.exp(factors), 1 - MAX_LOSS)


@given(
    share=SHARE,
    centre=UNIT,
    variance=st.floats(0.0, 0.25),
    rates=st.tuples(UNIT, UNIT),
    direction=st.sampled_from((1, -1)),
    margin=st.floats(0.0, 0.3),
)
def test_no_capital_expects_to_grow_under_its_null(  # every part of one bet
    share: float, centre: float, variance: float, rates: tuple[float, float], direction: int, margin: float
) -> None:
    """The candidate's rate is at most the control's plus the margin (direction 1), or at least (−1)."""
    candidate, control = rates
    if direction > 0:
        candidate = min(candidate, control + margin)
    else:
        candidate = min(1.0, max(candidate, control + margin))
        control = candidate - margin
        if control < 0:
            return
    offset = -direction * share * (1 - share) * margin
    least = min(float(least_score(share, centre, direction)) + offset, -1e-12)
    expected = np.zeros(len(EFFECTS))
    for is_candidate, chance, rate in ((True, share, candidate), (False, 1 - share, control)):
        for outcome, probability in ((1.0, rate), (0.0, 1 - rate)):
            gain = direction * float(arm_score(is_candidate, outcome, share, centre)) + offset
            factors = bet_log_factors(np.array([gain]), np.array([least]), np.array([variance]))
            expected += chance * probability * np.exp(factors[:, 0])
    assert (expected <= 1 + 1e-9).all()


def test_e_value_is_the_mean_capital() -> None:
    capital = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert math.exp(log_e_value(np.log(capital)[:, None])[0]) == pytest.approx(3.0)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.83])
def test_mismatch_martingale_expects_exactly_1(share: float) -> None:
    """Enumerated over all splits of n episodes at the configured share."""
    for n in (1, 7, 30):
        split = np.arange(n + 1)
        mean = np.sum(binom.pmf(split, n, share) * np.exp(mismatch_log_e(split, n - split, share)))
        assert mean == pytest.approx(1.0, abs=1e-9)


def test_mismatch_at_one_half_is_the_published_form() -> None:
    """B(a₀ + S, a₀ + F) / B(a₀, a₀) over ½^(S+F) with a₀ = 1: for 3 and 1 episodes (3!·1!/5!) / (1/16)."""
    assert math.exp(mismatch_log_e(3, 1, 0.5, weight=2.0)) == pytest.approx(6 / 120 * 16)


def test_mismatch_shows_a_doubled_share_and_stays_quiet_under_the_truth() -> None:
    rng = np.random.default_rng(5)
    n = np.arange(1, 2_001)

    def ever_alarmed(share: float) -> float:
        candidate = np.cumsum(rng.random((500, n.size)) < share, axis=1)
        alarms = mismatch_log_e(candidate, n - candidate, 0.1) >= math.log(100)
        return float(alarms.any(axis=1).mean())

    assert ever_alarmed(0.2) == 1.0, "20 % served for 10 % escapes 2,000 episodes with a chance far below 1e-9"
    # Ville: at most 1 % ever alarm; 500 runs exceed 14 alarms with a chance of 1e-4.
    assert ever_alarmed(0.1) <= 14 / 500
