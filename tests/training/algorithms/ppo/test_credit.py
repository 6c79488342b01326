"""Rewards and values become advantages and weights on tokens: fixtures of other projects, and worked by hand."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from upturn.records import Trajectory
from upturn.training import policy_rows
from upturn.training.algorithms.ppo import CreditSettings
from upturn.training.algorithms.ppo.credit import StepCredit, credit_metrics, estimate_credit, weighted_rows
from upturn.training.algorithms.ppo.credit_units import rollout_steps

Make = Callable[..., Trajectory]
THREE = ((0, 1, 3), (1, 4, 5), (2, 7, 9))
"""Two, one and two tokens."""


def _credit(
    trajectory: Trajectory, rewards: Sequence[float], values: Sequence[float], settings: CreditSettings
) -> StepCredit:
    rows = policy_rows(trajectory, [0.0] * len(trajectory.turns))
    return estimate_credit(rollout_steps(rows, rewards, settings.step), np.array(values), settings)


@pytest.mark.parametrize(
    ("gamma", "trace", "returns"),
    [(1.0, 1.0, [6.0, 5.0, 3.0]), (0.5, 1.0, [2.75, 3.5, 3.0]), (1.0, 0.5, [3.625, 4.25, 3.0])],
)
def test_advantages_by_turn_match_skyrl(
    make_trajectory: Make, gamma: float, trace: float, returns: list[float]
) -> None:
    """F4: SkyRL, test_ppo_utils.py, GAE; here each step is a turn of several tokens, observations between."""
    settings = CreditSettings(gamma=gamma, trace=trace, is_whitened=False)
    credit = _credit(make_trajectory(range(9), THREE), (1.0, 2.0, 3.0), (0.5, 1.0, 1.5), settings)
    assert credit.returns.tolist() == returns
    expected = [whole - value for whole, value in zip(returns, (0.5, 1.0, 1.5), strict=True)]
    assert credit.advantages.tolist() == expected
    ((row,),) = weighted_rows([credit], settings)
    assert row.weights.tolist() == [expected[turn] for turn in (0, 0, 1, 2, 2)]


def test_weights_of_two_turns_match_hand_computed_values(make_trajectory: Make) -> None:
    """γ = .5, λ = .5. Second turn: δ = 2 − 1 = 1, so A = 1. First: δ = 0 + .5·1 − .25 = .25, A = .25 + .25·1 = .5.
    Returns A + V: .75 and 2. With λ = 1 for the values: G = 0 + .5·2 = 1, and 2."""
    trajectory = make_trajectory((1, 5, 6, 2, 9, 7, 3), ((0, 1, 3), (1, 4, 7)))
    settings = CreditSettings(gamma=0.5, trace=0.5, is_whitened=False)
    credit = _credit(trajectory, (0.0, 2.0), (0.25, 1.0), settings)
    assert credit.advantages.tolist() == [0.5, 1.0]
    assert credit.returns.tolist() == [0.75, 2.0]
    ((policy,),) = weighted_rows([credit], settings)
    assert policy.positions.tolist() == [1, 2, 4, 5, 6]
    assert policy.weights.tolist() == [0.5, 0.5, 1.0, 1.0, 1.0]
    (critic,) = credit.valued_rows()
    assert critic.positions.tolist() == [1, 4]
    assert critic.weights.tolist() == [0.75, 2.0]
    far = _credit(trajectory, (0.0, 2.0), (0.25, 1.0), CreditSettings(gamma=0.5, trace=0.5, value_trace=1.0))
    assert far.returns.tolist() == [1.0, 2.0]
    assert far.advantages.tolist() == [0.5, 1.0]


def test_whitening_counts_a_step_once_per_token(make_trajectory: Make) -> None:
    """Advantages 2 on one token and −1 on two: mean 0, squares 4 + 1 + 1 = 6, deviation √(6/2)."""
    settings = CreditSettings(trace=1.0)
    step_credits = [
        _credit(make_trajectory((1, 5, 6), ((0, 2, 3),), name="a"), (2.0,), (0.0,), settings),
        _credit(make_trajectory((1, 5, 6), ((0, 1, 3),), name="b"), (0.0,), (1.0,), settings),
    ]
    (first,), (second,) = weighted_rows(step_credits, settings)
    assert first.weights.tolist() == pytest.approx([2 / math.sqrt(3)])
    assert second.weights.tolist() == pytest.approx([-1 / math.sqrt(3)] * 2)


def test_metrics_compare_values_with_returns(make_trajectory: Make) -> None:
    """Earned from the two turns on: 1 and 2, variance 1/4; the values .5 and 1 leave 1/16 of it, whatever λ."""
    for trace in (0.0, 1.0):
        settings = CreditSettings(gamma=0.5, trace=trace)
        credit = _credit(make_trajectory(range(6), ((0, 1, 3), (1, 4, 5))), (0.0, 2.0), (0.5, 1.0), settings)
        metrics = credit_metrics([credit], 0.5)
        assert metrics["mean_value"] == 0.75
        assert metrics["explained_variance"] == pytest.approx(0.75)
    assert metrics["advantage_std"] == pytest.approx(np.std([0.5, 1.0]))


def test_explained_variance_is_missing_for_constant_returns(make_trajectory: Make) -> None:
    settings = CreditSettings()
    credit = _credit(make_trajectory(), (1.0,), (0.5,), settings)
    assert math.isnan(credit_metrics([credit], 1.0)["explained_variance"])
