"""Fixed-sample intervals against hand-computed values and independent computations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.deployment.interval import (
    bootstrap_mean,
    clopper_pearson_interval,
    holm,
    paired_bootstrap,
    paired_worse_p,
    wilson_interval,
)


def test_wilson_interval_by_hand() -> None:
    """8 of 10: centre (.8 + .19207)/1.38415, half-width from the score equation."""
    interval = wilson_interval(8, 10)
    assert interval.mean == 0.8
    assert interval.low == pytest.approx(0.49016, abs=1e-5)
    assert interval.high == pytest.approx(0.94332, abs=1e-5)


def test_wilson_interval_at_the_ends() -> None:
    assert wilson_interval(0, 20).low == 0.0
    assert wilson_interval(20, 20).high == 1.0
    assert wilson_interval(0, 0) == (0.5, 0.0, 1.0, 0)
    with pytest.raises(ValueError, match="successes must be in"):
        wilson_interval(3, 2)


def test_clopper_pearson_upper_limit_is_the_rule_of_three() -> None:
    """No event in n: 1 − (α/2)^(1/n)."""
    interval = clopper_pearson_interval(0, 100)
    assert interval.low == 0.0
    assert interval.high == pytest.approx(1 - 0.025 ** (1 / 100))
    assert clopper_pearson_interval(100, 100).low == pytest.approx(0.025 ** (1 / 100))


def test_bootstrap_agrees_with_resampling_indices() -> None:
    values = np.random.default_rng(3).random(40)
    interval = bootstrap_mean(values, seed=1)
    rng = np.random.default_rng(2)
    means = values[rng.integers(0, 40, size=(20_000, 40))].mean(axis=1)
    expected_low, expected_high = np.quantile(means, [0.025, 0.975])
    assert interval.mean == pytest.approx(values.mean())
    # Both ends carry resampling noise of about 0.0015.
    assert interval.low == pytest.approx(expected_low, abs=0.008)
    assert interval.high == pytest.approx(expected_high, abs=0.008)


def test_bootstrap_repeats_with_its_seed_and_ignores_order() -> None:
    values = [0.03, 0.91, 0.74, 0.5, 0.66]
    limits = bootstrap_mean(values, seed=4)[1:]
    assert limits == bootstrap_mean(values[::-1], seed=4)[1:]
    assert limits == bootstrap_mean(values, seed=4)[1:]
    assert limits != bootstrap_mean(values, seed=5)[1:]


def test_bootstrap_covers_the_true_mean_at_its_confidence() -> None:
    rng = np.random.default_rng(8)
    hits = 0
    for seed in range(400):
        interval = bootstrap_mean(rng.random(100) < 0.7, seed=seed, resamples=1_000)
        hits += interval.low <= 0.7 <= interval.high
    # True coverage is near 94 %; fewer than 360 of 400 has a chance of 1e-3.
    assert hits >= 360


def test_paired_bootstrap_is_the_bootstrap_of_differences() -> None:
    a, b = [1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]
    assert paired_bootstrap(a, b, seed=2) == bootstrap_mean([1.0, 0.0, 0.0, 1.0], seed=2)
    with pytest.raises(ValueError, match="same length"):
        paired_bootstrap([1.0], [1.0, 0.0], seed=2)


@pytest.mark.parametrize("values", [[], [[1.0]], [float("nan")]])
def test_bootstrap_rejects_values_without_a_mean(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite values"):
        bootstrap_mean(values, seed=0)


def test_worse_p_is_the_sign_test_on_pairs() -> None:
    """Five worse, one better: P(X ≥ 5 of 6) = 7/64."""
    assert paired_worse_p([-1, -1, 0, -1, 1, -1, -1, 0], seed=0) == pytest.approx(7 / 64)
    assert paired_worse_p([0, 0, 0], seed=0) == 1.0
    assert paired_worse_p([1, 1, 1], seed=0) == 1.0


def test_worse_p_with_several_sizes_matches_the_enumerated_flips() -> None:
    """Sizes .5 and 1: of the eight sign patterns of (−1, −½, ½), three have a sum at most −1."""
    assert paired_worse_p([-1.0, -0.5, 0.5], seed=1, resamples=40_000) == pytest.approx(3 / 8, abs=0.012)


def test_holm_by_hand() -> None:
    """Sorted .01, .02, .03, .2 times 4, 3, 2, 1, made monotone."""
    np.testing.assert_allclose(holm([0.03, 0.01, 0.2, 0.02]), [0.06, 0.04, 0.2, 0.06])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_raw_and_bonferroni(p_values: list[float]) -> None:
    adjusted, raw = holm(p_values), np.array(p_values)
    assert (adjusted >= raw - 1e-15).all()
    assert (adjusted <= np.minimum(raw * raw.size, 1.0) + 1e-15).all()
