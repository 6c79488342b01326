"""The probability of being the largest of several normal variables, against a slow integration."""

import numpy as np
import pytest
from scipy import special

from upturn.arbiter.policies.normal import probability_largest


def slow(means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Integrates on 400,001 equal points over every variable."""
    points = np.linspace((means - 9 * deviations).min(), (means + 9 * deviations).max(), 400_001)
    result = []
    for chosen in range(len(means)):
        scaled = (points - means[chosen]) / deviations[chosen]
        values = np.exp(-scaled * scaled / 2) / deviations[chosen] / np.sqrt(2 * np.pi)
        for other in set(range(len(means))) - {chosen}:
            values = values * special.ndtr((points - means[other]) / deviations[other])
        result.append(np.trapezoid(values, points))
    return np.array(result)


@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_a_slow_integration(seed: int) -> None:
    generator = np.random.default_rng(seed)
    count = int(generator.integers(2, 7))
    means = generator.normal(0, 0.3, count)
    deviations = np.exp(generator.uniform(-4.5, -0.5, count))
    assert probability_largest(means, deviations) == pytest.approx(slow(means, deviations), abs=1e-6)


def test_equal_variables_have_equal_chances_and_certainty_is_certain() -> None:
    assert probability_largest(np.zeros(5), np.ones(5)) == pytest.approx([0.2] * 5)
    assert probability_largest(np.zeros(2), np.zeros(2)).tolist() == [0.5, 0.5]
    assert probability_largest(np.array([0.0, 9.0, 1.0]), np.full(3, 0.1)).tolist() == [0.0, 1.0, 0.0]


def test_100_variables_agree_with_a_slow_integration() -> None:
    generator = np.random.default_rng(9)
    means, deviations = generator.normal(0.6, 0.05, 100), generator.uniform(0.03, 0.08, 100)
    points = np.linspace(0.1, 1.3, 40_001)
    scaled = (points - means[:, None]) / deviations[:, None]
    below = special.log_ndtr(scaled)
    values = np.exp(below.sum(axis=0) - below - scaled * scaled / 2) / deviations[:, None] / np.sqrt(2 * np.pi)
    assert probability_largest(means, deviations) == pytest.approx(np.trapezoid(values, points), abs=1e-6)


def test_narrow_variables_among_many_wide_ones_agree_with_a_slow_integration() -> None:
    # The largest of the wide ones varies less than any of them.
    generator = np.random.default_rng(3)
    means = np.where(np.arange(100) < 10, generator.normal(0.6, 0.05, 100), 0.55)
    deviations = np.where(np.arange(100) < 10, generator.uniform(0.09, 0.13, 100), 0.14)
    points = np.linspace(-0.7, 2.0, 40_001)
    scaled = (points - means[:, None]) / deviations[:, None]
    below = special.log_ndtr(scaled)
    values = np.exp(below.sum(axis=0) - below - scaled * scaled / 2) / deviations[:, None] / np.sqrt(2 * np.pi)
    assert probability_largest(means, deviations) == pytest.approx(np.trapezoid(values, points), abs=1e-5)
