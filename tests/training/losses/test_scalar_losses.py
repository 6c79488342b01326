"""The losses of reward models, by hand: Bradley–Terry with margin and centring, cross-entropy with soft targets."""

import math
from collections.abc import Callable

import pytest
import torch

from upturn.training.loss import TokenBatch
from upturn.training.losses import RankedScores, SuccessProbability

Tokens = Callable[..., TokenBatch]
NEVER = [math.nan] * 4


def _pairs(scores: list[float], margins: tuple[float, float] = (0.0, 0.0)) -> TokenBatch:
    """Two pairs: tokens 0 and 2 are the chosen sides, 1 and 3 the rejected ones."""
    return TokenBatch(
        torch.tensor(scores, requires_grad=True),
        torch.tensor(NEVER),
        torch.tensor([1.0, -1.0, 1.0, -1.0]),
        torch.ones(4, dtype=torch.bool),
        reference_logprobs=torch.tensor([margins[0], 0.0, margins[1], 0.0]),
        pairs=torch.tensor([0, 0, 1, 1]),
    )


def test_the_loss_of_equal_scores_is_log_2_with_a_gradient_of_a_half() -> None:
    batch = _pairs([0.3, 0.3, -1.0, -1.0])
    losses = RankedScores().losses(batch)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([math.log(2) / 2] * 4)  # half of each pair's loss per side
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx([-0.5, 0.5, -0.5, 0.5])


def test_a_pairs_loss_is_that_of_its_difference_less_the_margin() -> None:
    """−log σ(2) and −log σ(−1): 0.126928 and 1.313262; with the margins 2 and 0.5, −log σ(0) and −log σ(−1.5)."""
    losses = RankedScores().losses(_pairs([1.5, -0.5, 0.0, 1.0]))
    assert losses.reshape(2, 2).sum(1).tolist() == pytest.approx([0.126928, 1.313262], abs=1e-6)
    margined = RankedScores().losses(_pairs([1.5, -0.5, 0.0, 1.0], (2.0, 0.5)))
    assert margined.reshape(2, 2).sum(1).tolist() == pytest.approx([0.693147, 1.701413], abs=1e-6)


def test_centring_adds_the_squared_sum_of_the_scores() -> None:
    """0.1·(1.5 − 0.5)² and 0.1·(0 + 1)²; its gradient, 0.2 times the sum, is the same for both sides."""
    batch = _pairs([1.5, -0.5, 0.0, 1.0])
    added = RankedScores(centring=0.1).losses(batch) - RankedScores().losses(batch)
    added.sum().backward()
    assert added.reshape(2, 2).sum(1).tolist() == pytest.approx([0.1, 0.1], abs=1e-6)
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx([0.2] * 4, abs=1e-6)


def test_swapping_the_sides_negates_the_margin() -> None:
    statistics = RankedScores().statistics(_pairs([1.5, -0.5, 0.0, 1.0]))
    assert statistics.sums == {"ranking_accuracy": 1.0, "ranking_margin": 1.0, "ranking_centre": 1.0}
    assert statistics.counted == 2.0
    swapped = RankedScores().statistics(_pairs([-0.5, 1.5, 1.0, 0.0]))
    assert swapped.sums == {"ranking_accuracy": 1.0, "ranking_margin": -1.0, "ranking_centre": 1.0}


def test_cross_entropy_of_soft_targets_and_its_gradient(tokens: Tokens) -> None:
    """z = 0: log 2 whatever the target. z = 2: −log σ(2) and −log σ(−2), and their mean for a target of ½."""
    batch = tokens([0.0, 2.0, 2.0, 2.0], NEVER, [0.3, 1.0, 0.0, 0.5])
    losses = SuccessProbability().losses(batch)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([0.693147, 0.126928, 2.126928, 1.126928], abs=1e-6)
    assert batch.logprobs.grad is not None
    sigma = 1 / (1 + math.exp(-2))
    assert batch.logprobs.grad.tolist() == pytest.approx([0.2, sigma - 1, sigma, sigma - 0.5])


def test_brier_is_the_squared_distance_of_probability_and_target(tokens: Tokens) -> None:
    batch = tokens([0.0, 0.0, 0.0, 0.0], NEVER, [0.5, 1.0, 0.0, 0.25])
    sums = SuccessProbability().statistics(batch).sums
    assert sums["turn_brier"] == pytest.approx(0.0 + 0.25 + 0.25 + 0.0625)
    assert sums["turn_loss"] == pytest.approx(4 * math.log(2))


def test_masked_tokens_give_nothing_whatever_they_hold(tokens: Tokens) -> None:
    batch = tokens([math.nan, 1.0], [math.nan] * 2, [1.0, 1.0])._replace(mask=torch.tensor([False, True]))
    losses = SuccessProbability().losses(batch)
    losses.sum().backward()
    assert losses[0] == 0
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad[0] == 0
