"""CISPO against numbers of other projects' tests."""

from collections.abc import Callable

import pytest
import torch

from upturn.training.loss import TokenBatch
from upturn.training.losses import ClippedWeights

Tokens = Callable[..., TokenBatch]


def _factors(tokens: Tokens, ratios: list[float], clips: tuple[float, float]) -> list[float]:
    """The factor of −A·∇log π of each token."""
    old = [-4.0] * len(ratios)
    logprobs = [-4.0 + float(torch.tensor(ratio, dtype=torch.float64).log()) for ratio in ratios]
    batch = tokens(logprobs, old, [2.0] * len(ratios))
    ClippedWeights(*clips).losses(batch).sum().backward()
    assert batch.logprobs.grad is not None
    return (batch.logprobs.grad / -2.0).tolist()


def test_loss_matches_skyrl(tokens: Tokens) -> None:
    """SkyRL test_ppo_utils.py, CISPO, retyped."""
    batch = tokens([-1.69315, -1.0, -0.69741], [-1.0, -1.0, -3.0], [1.0, -1.0, -4.0])
    losses = ClippedWeights(0.2, 0.2).losses(batch)
    assert float(losses.sum().detach()) == pytest.approx(-2.9930, abs=1e-4)


def test_gradient_is_minus_bounded_ratio_times_advantage_and_not_through_the_ratio(tokens: Tokens) -> None:
    """slime, its CISPO tests, retyped: the band .2/.28, and the wide band with a cap of 5 and no lower bound."""
    assert _factors(tokens, [1.0, 1.14, 1.56, 0.4], (0.2, 0.28)) == pytest.approx([1.0, 1.14, 1.28, 0.8])
    assert _factors(tokens, [1.0, 3.0, 9.0, 0.4], (1.0, 4.0)) == pytest.approx([1.0, 3.0, 5.0, 0.4])


def test_statistics_count_ratios_that_a_bound_changes(tokens: Tokens) -> None:
    batch = tokens([-1.0, -1.0, -3.0], [-1.0, -3.0, -1.0], [1.0, 1.0, 1.0])
    seen = ClippedWeights(0.2, 0.28).statistics(batch).sums
    assert (seen["clip_fraction_low"], seen["clip_fraction_high"], seen["clip_fraction"]) == (1, 1, 2)
    wide = ClippedWeights(1.0, 9.0).statistics(batch).sums
    assert wide["clip_fraction"] == 0
