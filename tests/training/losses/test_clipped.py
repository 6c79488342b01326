"""The clipped policy objective and cross-entropy on small tensors, worked by hand."""

import math

import pytest
import torch
from torch import Tensor

from upturn.training.loss import TokenBatch
from upturn.training.losses import (
    ClippedPolicy,
    CrossEntropy,
    clipped_policy_losses,
    cross_entropy_losses,
)

NAN = math.nan


def _batch(
    ratios: list[list[float]], advantages: list[list[float]], mask: list[list[bool]], old: float = -1.0
) -> TokenBatch:
    """A batch with these probability ratios."""
    old_logprobs = torch.full((len(ratios), len(ratios[0])), old)
    logprobs = (old_logprobs + torch.tensor(ratios).log()).requires_grad_()
    return TokenBatch(logprobs, old_logprobs, torch.tensor(advantages), torch.tensor(mask))


RATIOS = [[1.0, 1.5, 0.5], [1.5, 0.5, 1.1], [2.0, 0.9, 1.28]]
ADVANTAGES = [[1.0, 1.0, 1.0], [-1.0, -1.0, -2.0], [0.0, 3.0, 1.0]]
MASK = [[True, True, True], [True, True, True], [True, False, True]]
# by hand, clip .2/.28: ρA against clip(ρ, .8, 1.28)·A, the smaller one, negated
LOSSES = [[-1.0, -1.28, -0.5], [1.5, 0.8, 2.2], [0.0, 0.0, -1.28]]


def test_clipped_losses_match_hand_worked_values() -> None:
    losses = clipped_policy_losses(_batch(RATIOS, ADVANTAGES, MASK), clip_low=0.2, clip_high=0.28)
    torch.testing.assert_close(losses.detach(), torch.tensor(LOSSES))


def test_gradient_is_minus_ratio_times_advantage_where_the_clip_does_not_bind() -> None:
    batch = _batch(RATIOS, ADVANTAGES, MASK)
    clipped_policy_losses(batch, clip_low=0.2, clip_high=0.28).sum().backward()
    # binding: ρ=1.5 with A>0, and ρ=.5 with A<0; 1.28 is on the edge and not tested
    expected = torch.tensor([[-1.0, 0.0, -0.5], [1.5, 0.0, 2.2], [0.0, 0.0, 0.0]])
    gradient = batch.logprobs.grad
    assert gradient is not None
    edge = torch.tensor([[True] * 3, [True] * 3, [True, True, False]])
    torch.testing.assert_close(torch.where(edge, gradient, 0.0), expected)


def test_masked_slots_give_exactly_zero() -> None:
    logprobs = torch.tensor([-1.0, NAN, -2.0, math.inf], requires_grad=True)
    batch = TokenBatch(
        logprobs,
        torch.tensor([-1.0, NAN, NAN, -1.0]),
        torch.tensor([2.0, NAN, 1.0, NAN]),
        torch.tensor([True, False, False, False]),
    )
    losses = clipped_policy_losses(batch, clip_low=0.2, clip_high=0.28)
    assert losses.tolist() == [-2.0, 0.0, 0.0, 0.0]
    losses.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [-2.0, 0.0, 0.0, 0.0]
    assert cross_entropy_losses(batch.logprobs, batch.weights, batch.mask).tolist() == [2.0, 0.0, 0.0, 0.0]
    for objective in (ClippedPolicy(0.2, 0.28), CrossEntropy()):
        seen = objective.statistics(batch)
        assert all(math.isfinite(value) for value in (*seen.sums.values(), *seen.maxima.values()))


def test_cross_entropy_is_weighted_negative_logprob() -> None:
    losses = cross_entropy_losses(
        torch.tensor([[-1.0, -2.0], [-3.0, -4.0]]),
        torch.tensor([[1.0, 0.5], [2.0, 1.0]]),
        torch.tensor([[True, True], [True, False]]),
    )
    assert losses.tolist() == [[1.0, 1.0], [6.0, 0.0]]


def test_statistics_count_only_tokens_whose_gradient_the_clip_removes() -> None:
    seen = ClippedPolicy(0.2, 0.28).statistics(_batch(RATIOS, ADVANTAGES, MASK))
    assert seen.sums["clip_fraction"] == 2
    assert seen.sums["clip_fraction_low"] == seen.sums["clip_fraction_high"] == 1
    assert seen.sums["entropy"] == 8
    assert seen.sums["ratio"] == pytest.approx(1.0 + 1.5 + 0.5 + 1.5 + 0.5 + 1.1 + 2.0 + 1.28)
    assert seen.maxima["logprob_gap"] == pytest.approx(math.log(2.0), abs=1e-6)


def test_on_policy_gradient_equals_reinforce() -> None:
    """At ρ = 1 the surrogate's gradient is −A per token."""
    advantages = torch.tensor([0.5, -1.5, 0.0])
    logprobs = torch.tensor([-0.3, -2.0, -1.0], requires_grad=True)
    batch = TokenBatch(logprobs, logprobs.detach().clone(), advantages, torch.ones(3, dtype=torch.bool))
    loss: Tensor = clipped_policy_losses(batch, clip_low=0.2, clip_high=0.28).sum()
    loss.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == (-advantages).tolist()


def test_dual_clip_matches_slime() -> None:
    """slime, its test of dual-clip PPO, retyped: ε = .2, c = 1.5."""
    batch = _batch([[2.0, 2.0, 0.5]], [[2.0, -2.0, 2.0]], [[True] * 3])
    losses = clipped_policy_losses(batch, clip_low=0.2, clip_high=0.2, dual_clip=1.5)
    torch.testing.assert_close(losses.detach(), torch.tensor([[-2.4, 3.0, -1.0]]))


def test_dual_clip_matches_skyrl() -> None:
    """SkyRL test_ppo_utils.py, dual clip, retyped: ε = .2, c = 3; ratios .5, 1, 10."""
    batch = TokenBatch(
        torch.tensor([-1.69315, -1.0, -0.69741]),
        torch.tensor([-1.0, -1.0, -3.0]),
        torch.tensor([1.0, -1.0, -4.0]),
        torch.ones(3, dtype=torch.bool),
    )
    losses = clipped_policy_losses(batch, clip_low=0.2, clip_high=0.2, dual_clip=3.0)
    torch.testing.assert_close(losses, torch.tensor([-0.5, 1.0, 12.0]), rtol=1e-4, atol=0)
    assert float(losses.sum()) == pytest.approx(12.5, abs=1e-3)


def test_the_gradient_is_zero_where_the_dual_clip_binds() -> None:
    """A bad token five times as likely as before: PPO's gradient is −ρA = 5, unbounded as ρ grows; here it is 0."""
    gradients = []
    for dual in (None, 3.0):
        batch = _batch([[5.0, 2.0]], [[-1.0, -1.0]], [[True, True]])
        clipped_policy_losses(batch, clip_low=0.2, clip_high=0.28, dual_clip=dual).sum().backward()
        assert batch.logprobs.grad is not None
        gradients.append(batch.logprobs.grad[0].tolist())
        seen = ClippedPolicy(0.2, 0.28, dual).statistics(batch)
        assert seen.sums["clip_fraction"] == (0 if dual is None else 1)
        assert seen.sums.get("clip_fraction_dual", 0) == seen.sums["clip_fraction"]
    assert gradients == [pytest.approx([5.0, 2.0]), pytest.approx([0.0, 2.0])]
