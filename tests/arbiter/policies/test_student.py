"""The probability of being the largest of several Student variables, against a slow integration."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from upturn.arbiter.policies.student import probability_largest_student


def slow(variables: list[tuple[float, float, float]]) -> list[float]:
    """Integrates over the quantiles of every variable, adaptively."""
    frozen = [stats.t(freedom, location, scale) for location, scale, freedom in variables]
    result = []
    for index, chosen in enumerate(frozen):
        others = frozen[:index] + frozen[index + 1 :]
        edges = [chosen.cdf(other.ppf(level)) for other in others for level in (0.001, 0.1, 0.5, 0.9, 0.999)]
        inside = sorted({0.0, 1.0, *(edge for edge in edges if 1e-9 < edge < 1 - 1e-9)})
        result.append(sum(_integral(chosen, others, low, high) for low, high in pairwise(inside)))
    return result


def _integral(chosen: Any, others: list[Any], low: float, high: float) -> float:
    def below(level: float) -> float:
        point = chosen.ppf(level)
        return float(np.prod([special.stdtr(f, (point - m) / s) for f, m, s in (other.args for other in others)]))

    return float(integrate.quad(below, low, high, epsabs=1e-10)[0])


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_a_slow_integration(seed: int) -> None:
    generator = np.random.default_rng(seed)
    variables = [
        (float(generator.normal(0.6, 0.1)), float(np.exp(generator.uniform(-5, -1.5))), freedom)
        for freedom in (3.0, 4.5, 12.0, 300.0)[: int(generator.integers(2, 5))]
    ]
    assert probability_largest_student(tuple(variables)) == pytest.approx(slow(variables), abs=1e-6)


def test_equal_variables_have_equal_chances_and_certainty_is_certain() -> None:
    assert probability_largest_student(((0.5, 0.1, 3.0),) * 3) == pytest.approx([1 / 3] * 3)
    assert probability_largest_student(((0.5, 0.0, 9.0),) * 2) == pytest.approx([0.5, 0.5])
    assert probability_largest_student(((0.2, 1e-6, 9.0), (0.9, 1e-6, 9.0))) == (0.0, 1.0)


def test_too_few_degrees_of_freedom_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be at least 3, got 2\.5"):
        probability_largest_student(((0.0, 1.0, 2.5), (0.0, 1.0, 3.0)))
