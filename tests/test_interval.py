"""Fixed-sample intervals against hand-computed values and independent computations."""

import numpy as np
import pytest
from scipy import stats

from upturn.interval import (
    bootstrap_mean,
    by_cluster,
    clopper_pearson_interval,
    paired_bootstrap,
    welch_difference,
    wilson_interval,
    wilson_limits,
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


def test_wilson_limits_of_whole_samples_are_those_of_the_rate() -> None:
    assert wilson_limits(0.8, 10) == wilson_interval(8, 10)[1:3]


def test_wilson_limits_of_fractional_samples_by_hand() -> None:
    """Mean .25 of 1.92 samples: z²/n = 2, centre 1.25/3, half z/3 · sqrt(.1875/n + 2/(4n))."""
    samples = 1.959963984540054**2 / 2
    half = 1.959963984540054 / 3 * (0.6875 / samples) ** 0.5
    assert wilson_limits(0.25, samples) == pytest.approx((1.25 / 3 - half, 1.25 / 3 + half))


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 60, 0.0, 0.0596), (60, 60, 0.9404, 1.0), (4, 4, 0.3976, 1.0), (0, 1, 0.0, 0.975)],
)
def test_equal_outcomes_have_the_exact_interval(successes: int, n: int, low: float, high: float) -> None:
    """Clopper and Pearson's tables, with the rule of three at the other end."""
    outcomes = [1.0] * successes + [0.0] * (n - successes)
    interval = bootstrap_mean(outcomes, seed=0, bounds=(0.0, 1.0))
    assert interval == pytest.approx(clopper_pearson_interval(successes, n))
    assert interval[1:3] == pytest.approx((low, high), abs=5e-5)


def test_equal_differences_have_limits_as_far_as_the_bounds_allow() -> None:
    """Of 60 equal differences, at most a share of .0596 differs, from 0 by up to 1 and from 1 by up to 2."""
    share = 1 - 0.025 ** (1 / 60)
    zero = paired_bootstrap([1.0] * 60, [1.0] * 60, seed=0, bounds=(-1.0, 1.0))
    assert zero == pytest.approx((0.0, -share, share, 60))
    one = paired_bootstrap([1.0] * 60, [0.0] * 60, seed=0, bounds=(-1.0, 1.0))
    assert one == pytest.approx((1.0, 1 - 2 * share, 1.0, 60))
    assert bootstrap_mean([0.3] * 9, seed=0)[1:3] == pytest.approx((0.3, 0.3))


def test_exact_intervals_of_equal_outcomes_cover_a_rate_near_the_end() -> None:
    """A rate of .02 in 60 tasks: 0 of 60 has a chance of 30 %, and a bootstrap's interval [0, 0] would miss it."""
    rng, hits = np.random.default_rng(5), 0
    for seed in range(300):
        outcomes = (rng.random(60) < 0.02).astype(float)
        interval = bootstrap_mean(outcomes, seed=seed, bounds=(0.0, 1.0), resamples=500)
        hits += interval.low <= 0.02 <= interval.high
    # One success in 60 is an interval of the bootstrap up to .05. Coverage is above .95: 270 or fewer has 1e-4.
    assert hits > 270


def test_bounds_that_the_values_exceed_are_rejected() -> None:
    with pytest.raises(ValueError, match="not within the bounds"):
        bootstrap_mean([0.2, 1.2], seed=0, bounds=(0.0, 1.0))


def test_values_are_added_up_by_cluster_in_order_of_appearance() -> None:
    sums, sizes = by_cluster(np.array([1.0, 2.0, 4.0, 8.0]), ["b", "a", "b", "c"])
    assert (sums.tolist(), sizes.tolist()) == ([5.0, 2.0, 8.0], [2.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="4 values need one cluster each, got 1"):
        by_cluster(np.zeros(4), ["a"])


def test_clusters_of_one_change_nothing() -> None:
    values = np.random.default_rng(1).random(50)
    names = [f"task {index}" for index in range(50)]
    assert bootstrap_mean(values, seed=3, clusters=names) == bootstrap_mean(values, seed=3)


def test_cluster_bootstrap_agrees_with_drawing_whole_clusters_one_by_one() -> None:
    """Slow version: draw G clusters, pool their values, take the mean; then widen by sqrt(G/(G−1)) · t/z."""
    rng = np.random.default_rng(4)
    members = [rng.random(size) * rng.random() for size in (1, 2, 3, 5, 8, 2, 4, 1, 6, 3, 2, 7)]
    names = [str(number) for number, values in enumerate(members) for _ in values]
    interval = bootstrap_mean(np.concatenate(members), seed=1, clusters=names)
    means = []
    for _ in range(6_000):
        drawn = [members[index] for index in rng.integers(0, 12, size=12)]
        means.append(sum(map(sum, drawn)) / sum(map(len, drawn)))
    centre, widening = np.concatenate(members).mean(), (12 / 11) ** 0.5 * 2.200985 / 1.959964  # t(11) at .975
    low, high = (centre + widening * (limit - centre) for limit in np.quantile(means, [0.025, 0.975]))
    assert interval.mean == pytest.approx(centre)
    # Both ends carry resampling noise of about .003.
    assert interval.low == pytest.approx(low, abs=0.015)
    assert interval.high == pytest.approx(high, abs=0.015)


def test_equal_clusters_count_once_in_the_exact_interval() -> None:
    """Three clusters of four successes each: 3 of 3, not 12 of 12."""
    names = [name for name in "abc" for _ in range(4)]
    interval = bootstrap_mean([1.0] * 12, seed=0, clusters=names, bounds=(0.0, 1.0))
    assert interval == pytest.approx((1.0, 0.025 ** (1 / 3), 1.0, 12))


def test_welch_interval_by_scipy() -> None:
    first, second = [1.0, 2.0, 4.0], [0.5, 0.7, 0.1, 0.3]
    reference = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    interval = welch_difference(first, second)
    assert (interval.low, interval.high) == pytest.approx((reference.low, reference.high))
    assert interval.mean == pytest.approx(7 / 3 - 0.4)
    assert welch_difference([1.0, 1.0], [0.5, 0.5]) == (0.5, 0.5, 0.5, 4)
    with pytest.raises(ValueError, match="two or more finite values, got 1 and 2"):
        welch_difference([1.0], [0.5, 0.5])
