"""Beta posteriors and exact probabilities of being the best."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from upturn.arbiter.posterior import Posterior, Shape, probability_best

parameter = st.floats(min_value=1, max_value=5000)
shapes = st.lists(st.tuples(parameter, parameter), min_size=1, max_size=5)


def reference_probabilities(arms: list[Shape]) -> NDArray[np.float64]:
    """Returns Riemann–Stieltjes sums of Π cdf over each arm's cdf on a dense grid: no density, no Gauss rule."""
    levels = np.linspace(0, 1, 20_001)
    grid = np.unique(np.concatenate([stats.beta.ppf(levels, alpha, beta) for alpha, beta in arms]))
    below = np.array([stats.beta.cdf(grid, alpha, beta) for alpha, beta in arms])
    probabilities = []
    for arm in range(len(arms)):
        others = np.prod(np.delete(below, arm, axis=0), axis=0)
        probabilities.append(float(np.sum(np.diff(below[arm]) * (others[1:] + others[:-1]) / 2)))
    return np.array(probabilities)


def test_moments_are_those_of_the_beta_distribution() -> None:
    posterior = Posterior(3, 2)
    assert posterior.mean == 0.6
    assert posterior.deviation == pytest.approx(0.2)  # sqrt(3·2 / (25·6))
    assert posterior.weight == 3
    assert Posterior(1, 1).interval() == pytest.approx((0.025, 0.975))
    assert Posterior(1, 1).interval(0.5) == pytest.approx((0.25, 0.75))


def test_probabilities_match_hand_computed_values() -> None:
    # Beta(2, 1) has pdf 2x against the uniform's cdf x: ∫ 2x·x dx = 2/3.
    assert probability_best(((2.0, 1.0), (1.0, 1.0))) == pytest.approx((2 / 3, 1 / 3), abs=1e-9)
    # ∫ 3x²·x·x dx = 3/5 against two uniforms; the rest is shared.
    assert probability_best(((3.0, 1.0), (1.0, 1.0), (1.0, 1.0))) == pytest.approx((0.6, 0.2, 0.2), abs=1e-9)
    assert probability_best(((4.0, 7.0),)) == (1.0,)


@pytest.mark.parametrize(
    "arms",
    [
        [(8.0, 3.0), (5.0, 5.0)],
        [(90.0, 12.0), (3.0, 2.0), (40.0, 41.0)],
        [(4000.0, 500.0), (1.0, 1.0), (2.5, 1.25), (1.0, 300.0)],
        [(1.0, 1000.0), (1.5, 900.0), (2.0, 2000.0)],
        [(1000.0, 1.0), (3000.0, 2.0), (50.0, 1.0)],
        [(10.0, 4.0)] * 6 + [(9.0, 5.0)] * 5,
    ],
)
def test_agrees_with_independent_integration(arms: list[Shape]) -> None:
    assert np.abs(np.array(probability_best(tuple(arms))) - reference_probabilities(arms)).max() < 1e-6


def test_agrees_with_sampling() -> None:
    arms = ((12.0, 5.0), (9.0, 3.0), (2.0, 2.0))
    count = 200_000
    generator = np.random.default_rng(11)
    samples = np.array([generator.beta(alpha, beta, count) for alpha, beta in arms])
    shares = np.bincount(samples.argmax(axis=0), minlength=3) / count
    for share, exact in zip(shares, probability_best(arms), strict=True):
        error = (exact * (1 - exact) / count) ** 0.5
        assert abs(share - exact) < 4.9 * error, "P(fails by chance) < 1e-6 per arm: 4.9 standard errors"


@settings(max_examples=50, deadline=None)  # a slow machine must not fail it
@given(shapes)
def test_probabilities_sum_to_one_and_follow_the_arms(arms: list[Shape]) -> None:
    probabilities = probability_best(tuple(arms))
    assert sum(probabilities) == pytest.approx(1, abs=1e-12)
    assert all(0 <= probability <= 1 for probability in probabilities)
    assert probability_best(tuple(arms[::-1])) == pytest.approx(probabilities[::-1], abs=1e-12)


def test_arm_entirely_below_another_has_probability_zero() -> None:
    assert probability_best(((900.0, 100.0), (100.0, 900.0))) == (1.0, 0.0)
