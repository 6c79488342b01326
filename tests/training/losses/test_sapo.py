"""SAPO against SkyRL's inputs and the gradient by hand."""

import math
from collections.abc import Callable

import pytest

from upturn.training.loss import TokenBatch
from upturn.training.losses import SoftGated

Tokens = Callable[..., TokenBatch]


def test_loss_on_skyrls_inputs(tokens: Tokens) -> None:
    """SkyRL test_ppo_utils.py, SAPO, its inputs; the sum computed independently."""
    batch = tokens([-1.5, -0.8, -1.1], [-1.0, -1.0, -1.0], [1.0, -1.0, 0.5])
    losses = SoftGated(1.0, 1.05).losses(batch)
    assert float(losses.sum().detach()) == pytest.approx(-0.43881, abs=1e-5)


def test_the_gradient_is_4_times_the_variance_of_the_gate(tokens: Tokens) -> None:
    """d loss / d log π = −4·σ(1 − σ)·ρ·A; at ρ = 1 it is −A for every τ."""
    ratios, weights = [1.0, 1.0, 2.0, 0.5], [3.0, -3.0, 1.0, -1.0]
    batch = tokens([-4.0 + math.log(ratio) for ratio in ratios], [-4.0] * 4, weights)
    SoftGated(1.0, 2.0).losses(batch).sum().backward()
    expected = []
    for ratio, weight in zip(ratios, weights, strict=True):
        gate = 1.0 / (1.0 + math.exp(-(2.0 if weight < 0 else 1.0) * (ratio - 1.0)))
        expected.append(-4.0 * gate * (1.0 - gate) * ratio * weight)
    assert expected[:2] == [-3.0, 3.0]
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx(expected)


def test_statistics_report_no_clipping(tokens: Tokens) -> None:
    batch = tokens([-1.0, -3.0], [-1.0, -1.0], [1.0, 1.0])
    assert SoftGated(1.0, 1.05).statistics(batch).sums["clip_fraction"] == 0.0
