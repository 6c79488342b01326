"""VESPO against the kernel in plain Python, TRL's own number, and the gradient by hand."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from upturn.training.loss import TokenBatch
from upturn.training.losses import ClippedPolicy, KernelWeighted
from upturn.training.policy_settings import KernelSettings

Tokens = Callable[..., TokenBatch]
LOG_RATIOS = [[0.3, -0.1, 0.2], [-0.5, -0.4, 0.0], [1.2, 0.9, 0.4], [0.0, 0.0, 0.0]]
"""By rollout and token: W = e^.4, e^−.9, e^2.5 and 1."""
ADVANTAGES = [1.5, -0.5, -2.0, 0.7]


def _batch(tokens: Tokens, ratios: Sequence[Sequence[float]] = LOG_RATIOS) -> TokenBatch:
    """Old log-probs of −1."""
    return tokens(
        [-1.0 + value for row in ratios for value in row],
        [-1.0] * sum(map(len, ratios)),
        [weight for weight, row in zip(ADVANTAGES, ratios, strict=True) for _ in row],
        sequences=[index for index, row in enumerate(ratios) for _ in row],
    )


def _kernel(product: float, advantage: float) -> float:
    """W^k·e^{λ(1 − W)} with the authors' constants."""
    shape, rate = (2.0, 3.0) if advantage >= 0 else (3.0, 2.0)
    return float(product**shape * math.exp(rate * (1.0 - product)))


def test_losses_and_gradients_are_the_kernels(tokens: Tokens) -> None:
    batch = _batch(tokens)
    losses = KernelWeighted(KernelSettings()).losses(batch)
    losses.sum().backward()
    weights = [
        _kernel(math.exp(sum(row)), advantage) for row, advantage in zip(LOG_RATIOS, ADVANTAGES, strict=True)
    ]
    assert weights[3] == 1.0
    scaled = [-weight * advantage for weight, advantage in zip(weights, ADVANTAGES, strict=True) for _ in range(3)]
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx(scaled)
    values = [factor * float(logprob) for factor, logprob in zip(scaled, batch.logprobs.detach(), strict=True)]
    assert losses.tolist() == pytest.approx(values)


def test_on_policy_the_gradient_is_the_policy_gradients(tokens: Tokens) -> None:
    gradients = []
    for objective in (KernelWeighted(KernelSettings()), ClippedPolicy(0.2, 0.2)):
        batch = _batch(tokens, [[0.0] * 3] * 4)
        objective.losses(batch).sum().backward()
        assert batch.logprobs.grad is not None
        gradients.append(batch.logprobs.grad.tolist())
    assert gradients[0] == pytest.approx(gradients[1])


@pytest.mark.parametrize("shift", [-1000.0, -30.0, 30.0, 400.0])
def test_a_rollout_far_from_the_sampler_has_no_weight(tokens: Tokens, shift: float) -> None:
    """Bounded before any exponential, so that nothing overflows; W = 1e-8 at least."""
    batch = _batch(tokens, [[shift] * 3] * 4)
    losses = KernelWeighted(KernelSettings()).losses(batch).detach()
    weights = losses.abs() / (batch.weights * batch.logprobs.detach()).abs()
    assert float(weights.max()) <= 2.1e-15  # (1e-8)²·e³


def test_the_kernel_is_chosen_by_each_tokens_advantage(tokens: Tokens) -> None:
    """One rollout with a good and a bad turn: W = e^.5 of both, k and λ of its own sign for each."""
    batch = tokens([-0.8, -0.7], [-1.0, -1.0], [1.0, -1.0], sequences=[0, 0])
    losses = KernelWeighted(KernelSettings()).losses(batch)
    product = math.exp(0.5)
    assert losses.tolist() == pytest.approx([_kernel(product, 1.0) * 0.8, -_kernel(product, -1.0) * 0.7])


def test_statistics_report_the_product_and_the_weight(tokens: Tokens) -> None:
    sums = KernelWeighted(KernelSettings()).statistics(_batch(tokens)).sums
    products = [math.exp(sum(row)) for row in LOG_RATIOS]
    assert sums["ratio"] == pytest.approx(3 * sum(products))
    expected = 3 * sum(map(_kernel, products, ADVANTAGES))
    assert sums["kernel_weight"] == pytest.approx(expected)
    assert sums["clip_fraction"] == 0.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # TRL's and its dependencies' own
def test_weights_equal_trls(tokens: Tokens) -> None:
    pytest.importorskip("trl", reason="TRL is not installed: pip install -e '.[bench]'")
    from trl.trainer.grpo_trainer import GRPOTrainer

    batch = _batch(tokens)
    theirs: Tensor = GRPOTrainer.get_gamma_weights(
        torch.tensor(ADVANTAGES)[:, None], torch.tensor(LOG_RATIOS), torch.ones(4, 3), None
    )
    ours = KernelWeighted(KernelSettings())._weights(batch).view(4, 3)
    assert torch.allclose(ours.float(), theirs.expand(4, 3), rtol=1e-5)
