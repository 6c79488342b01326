"""The expected variance of DR: by hand, and against many simulated logs."""

import numpy as np
import pytest

from upturn.arbiter.off_policy_variance import Options, Outcomes, expected_variance, freedom_of


def _outcomes(rewards: list[float], cells: list[int], versions: list[int]) -> Outcomes:
    return Outcomes(np.array(rewards), np.array(cells), np.array(versions))


def test_variance_and_degrees_of_freedom_by_hand() -> None:
    # Four decisions in one family. The target always takes version 0, which the log takes with probability .5.
    options = Options(np.arange(4), np.zeros(4, dtype=int), np.ones(4), np.full(4, 0.5), np.full(4, 0.25))
    result = expected_variance(options, _outcomes([1, 0, 1, 0], [0, 0, 1, 1], [0, 1]))
    # Version 0: rewards 1 and 0, and .5 as a further one: mean .5. The overall variance, .25 + .25 / 4 but at most
    # .25, is one degree of freedom.
    variance = (0.5 + 0.25) / 2
    within = 2 * (variance + 0.25**2) - 0.25**2
    assert result.variance == pytest.approx(4 * within / 16)
    assert result.freedom == pytest.approx(2.0), "one cell with two outcomes"


def test_a_version_without_outcomes_has_the_overall_variance_and_no_certainty() -> None:
    options = Options(np.arange(2), np.array([1, 1]), np.ones(2), np.full(2, 0.1), np.full(2, 0.5))
    result = expected_variance(options, _outcomes([1, 0], [0, 0], [0, 1]))
    assert result.variance == pytest.approx((10 * 0.25 * 2) / 4)
    assert result.freedom == pytest.approx(1.0)


def test_the_expected_variance_is_that_of_the_scores() -> None:
    generator = np.random.default_rng(0)
    count, rates, logged, target = 500, np.array([0.8, 0.3]), np.array([0.9, 0.1]), np.array([0.2, 0.8])
    values, variances = [], []
    for _ in range(300):
        chosen = (generator.random(count) < logged[1]).astype(int)
        rewards = (generator.random(count) < rates[chosen]).astype(float)
        scores = target @ np.array([0.5, 0.5]) + (target / logged)[chosen] * (rewards - 0.5)
        decisions = np.repeat(np.arange(count), 2)
        options = Options(
            decisions,
            np.tile([0, 1], count),
            np.tile(target, count),
            np.tile(logged, count),
            np.full(2 * count, 0.5),
        )
        values.append(scores.mean())
        variances.append(expected_variance(options, Outcomes(rewards, chosen, np.array([0, 1]))).variance)
    ratio = float(np.mean(variances)) / float(np.var(values, ddof=1))
    assert 0.75 < ratio < 1.33, "a variance of 300 values has a standard error of 8 %: beyond 3 of them, p < .003"


def test_degrees_of_freedom_are_few_where_few_values_carry_the_variance() -> None:
    assert freedom_of(np.zeros(5)) == 0.0
    assert freedom_of(np.array([3.0, *[0.0] * 98, -3.0])) == pytest.approx(200 / 49)
    assert freedom_of(np.array([1.0, -1.0] * 50)) == pytest.approx(100**2), "all squares are equal"
    normal = freedom_of(np.random.default_rng(1).normal(size=20_000))
    assert normal == pytest.approx(20_000, rel=0.1), "the kurtosis has a standard error of .035: 10 % is 6 of them"
