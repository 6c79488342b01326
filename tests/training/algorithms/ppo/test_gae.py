"""Generalised advantages and discounted returns: fixtures of other projects; masked places cannot matter."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import TrainingError
from upturn.training.algorithms.ppo.gae import (
    discounted_returns,
    generalised_advantages,
    whitened,
)

REWARDS, VALUES = [1.0, 2.0, 3.0], [0.5, 1.0, 1.5]


@pytest.mark.parametrize(
    ("gamma", "trace", "returns"),
    [(1.0, 1.0, [6.0, 5.0, 3.0]), (0.5, 1.0, [2.75, 3.5, 3.0]), (1.0, 0.5, [3.625, 4.25, 3.0])],
)
def test_returns_match_skyrl(gamma: float, trace: float, returns: list[float]) -> None:
    """F4: SkyRL, test_ppo_utils.py, GAE."""
    estimates = generalised_advantages(REWARDS, VALUES, gamma=gamma, trace=trace)
    assert estimates.returns.tolist() == returns
    assert (estimates.advantages + np.array(VALUES)).tolist() == returns


def test_masked_whitening_matches_skyrl() -> None:
    """F4, its masked row: plain GAE through the masked place, whitened over the others."""
    plain = generalised_advantages(REWARDS, VALUES, gamma=1.0, trace=1.0).advantages
    assert whitened(plain, [1, 0, 1]).tolist() == pytest.approx([0.7071, 0.1768, -0.7071], abs=1e-4)


def test_masked_positions_are_skipped_as_in_verl() -> None:
    """verl, compute_gae_advantage_return: [3.5, 1.5, 1.5]; the reward on the masked place is lost."""
    estimates = generalised_advantages(REWARDS, VALUES, [1, 0, 1], gamma=1.0, trace=1.0)
    assert estimates.advantages.tolist() == [3.5, 1.5, 1.5]
    assert estimates.returns.tolist() == [4.0, 3.0, 3.0]


def test_discounted_returns_match_skyrl_reinforce_plus_plus() -> None:
    """F5, and the same without a mask at γ = .5."""
    assert discounted_returns(REWARDS, [1, 1, 0], gamma=1.0).tolist() == [3.0, 2.0, 3.0]
    assert discounted_returns(REWARDS, gamma=0.5).tolist() == [2.75, 3.5, 3.0]


def test_returns_cross_observations_without_a_discount() -> None:
    estimates = discounted_returns([0.0, 0.0, 0.0, 8.0], [1, 0, 0, 1], gamma=0.5)
    assert estimates[[0, 3]].tolist() == [4.0, 8.0]


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.9]), st.sampled_from([1.0, 0.5, 0.0]))
def test_values_at_masked_positions_cannot_change_a_result(seed: int, gamma: float, trace: float) -> None:
    """F11: verl, test_core_algos_on_cpu.py, multi-turn GAE with random values on observations."""
    rewards = np.array([0, 0, 0.1, 0.1, 0.1, 0, 0, 0.1, 1, 0, 0])
    mask = np.array([0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 0])
    rng = np.random.default_rng(seed)
    first = rng.normal(size=11)
    second = np.where(mask, first, rng.choice([np.nan, np.inf, 3.0], size=11))
    one = generalised_advantages(rewards, first, mask, gamma=gamma, trace=trace)
    other = generalised_advantages(rewards, second, mask, gamma=gamma, trace=trace)
    assert one.advantages.tolist() == other.advantages.tolist()
    assert one.returns.tolist() == other.returns.tolist()
    written = mask.astype(bool)
    alone = generalised_advantages(rewards[written], first[written], gamma=gamma, trace=trace)
    assert one.advantages[written].tolist() == alone.advantages.tolist()


@given(st.integers(0, 2**32 - 1))
def test_rows_of_a_batch_are_independent_and_match_the_definition(seed: int) -> None:
    """F12 for GAE: whole arrays against the sum Σ (γλ)^l δ_{t+l}, written as a loop."""
    rng = np.random.default_rng(seed)
    rewards, values = rng.normal(size=(2, 3, 6))
    estimates = generalised_advantages(rewards, values, gamma=0.9, trace=0.8).advantages
    for row in range(3):
        after = [*values[row, 1:], 0.0]
        surprises = [rewards[row, t] + 0.9 * after[t] - values[row, t] for t in range(6)]
        for t in range(6):
            expected = math.fsum((0.9 * 0.8) ** (k - t) * surprises[k] for k in range(t, 6))
            assert estimates[row, t] == pytest.approx(expected, abs=1e-9)


def test_a_single_number_whitens_to_zero() -> None:
    assert whitened([3.0, 4.0], [1, 0]).tolist() == [0.0, 0.0]


def test_invalid_shapes_and_shares_are_refused() -> None:
    with pytest.raises(TrainingError, match=r"have the shapes \(3,\), \(2,\) and \(3,\); they must be equal"):
        generalised_advantages(REWARDS, [1.0, 2.0], gamma=1.0, trace=1.0)
    with pytest.raises(TrainingError, match=r"gamma must be in \[0, 1\], got 1\.1"):
        generalised_advantages(REWARDS, VALUES, gamma=1.1, trace=1.0)
    with pytest.raises(TrainingError, match=r"trace must be in \[0, 1\], got -0\.1"):
        generalised_advantages(REWARDS, VALUES, gamma=1.0, trace=-0.1)
