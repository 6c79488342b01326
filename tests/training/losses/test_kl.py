"""The adaptive KL coefficient."""

import pytest

from upturn.training.losses.kl import AdaptiveCoefficient


def test_coefficient_matches_skyrl() -> None:
    """SkyRL test_ppo_utils.py, adaptive KL controller, retyped."""
    coefficient = AdaptiveCoefficient(0.2, target=0.1, horizon=100)
    coefficient.update(0.2, 10)
    assert coefficient.coefficient == pytest.approx(0.204)


def test_the_coefficient_rises_above_the_target_and_falls_below() -> None:
    coefficients = []
    for kl in (0.11, 0.1, 0.09, 0.0):
        coefficient = AdaptiveCoefficient(1.0, target=0.1, horizon=10)
        coefficient.update(kl, 10)
        coefficients.append(coefficient.coefficient)
    assert coefficients == pytest.approx([1.1, 1.0, 0.9, 0.8])


def test_the_coefficient_never_becomes_negative() -> None:
    coefficient = AdaptiveCoefficient(1.0, target=0.1, horizon=1)
    coefficient.update(0.0, 1000)
    assert coefficient.coefficient == pytest.approx(0.8)


def test_the_coefficient_resumes_from_its_state() -> None:
    first = AdaptiveCoefficient(0.2, target=0.1, horizon=100)
    first.update(0.3, 7)
    second = AdaptiveCoefficient(0.2, target=0.1, horizon=100)
    second.load_state(first.state())
    for adaptive in (first, second):
        adaptive.update(0.05, 9)
    assert first.coefficient == second.coefficient
