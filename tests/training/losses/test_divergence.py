"""KL estimators: values, means of values and of gradients over a whole distribution, and NaN where masked."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from upturn.training.loss import TokenBatch
from upturn.training.losses import ClippedPolicy, WithKl, kl_estimates
from upturn.training.losses.kl import k3
from upturn.training.policy_settings import KlEstimator

Tokens = Callable[..., TokenBatch]
ESTIMATORS: tuple[KlEstimator, ...] = ("k1", "k2", "k3", "abs")


def test_estimates_of_single_tokens(tokens: Tokens) -> None:
    """Δ = 1, −1, 0."""
    batch = tokens([-2.0, -1.0, -1.0], [-2.0, -1.0, -1.0], [1.0] * 3, reference=[-1.0, -2.0, -1.0])
    results = {name: kl_estimates(batch, name).tolist() for name in ESTIMATORS}
    assert results["k1"] == [-1.0, 1.0, 0.0]
    assert results["k2"] == [0.5, 0.5, 0.0]
    assert results["k3"] == pytest.approx([math.e - 2, 1 / math.e, 0.0])
    assert results["abs"] == [1.0, 1.0, 0.0]
    assert k3(torch.tensor([0.0]), torch.tensor([1.0])).item() == 0.0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_masked_slots_give_zero_value_and_gradient_even_if_nan(
    noisy: Callable[[], TokenBatch], estimator: KlEstimator
) -> None:
    """SkyRL test_ppo_utils.py, KL estimators with NaN in a masked slot, retyped in our shapes."""
    batch = noisy()
    results = kl_estimates(batch, estimator)
    assert torch.isfinite(results).all()
    assert results[~batch.mask].tolist() == [0.0, 0.0]
    results.sum().backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad[~batch.mask].tolist() == [0.0, 0.0]
    assert torch.isfinite(batch.logprobs.grad).all()


def _mean_gradient(
    logits: Tensor, reference: Tensor, sampler: Tensor, estimator: KlEstimator, *, unbiased: bool
) -> tuple[float, Tensor]:
    """Mean of the KL term and of its gradient by the logits, over every token that the sampler may draw."""
    leaf = logits.clone().requires_grad_()
    logprobs = leaf.log_softmax(-1)
    batch = TokenBatch(
        logprobs,
        sampler.log_softmax(-1),
        torch.zeros(len(logits), dtype=torch.float64),
        torch.ones(len(logits), dtype=torch.bool),
        reference_logprobs=reference.log_softmax(-1),
    )
    losses = WithKl(ClippedPolicy(0.2, 0.2), 1.0, estimator=estimator, unbiased=unbiased).losses(batch)
    value = (sampler.softmax(-1) * losses).sum()
    value.backward()
    assert leaf.grad is not None
    return float(value.detach()), leaf.grad


def _exact(logits: Tensor, divergence: Callable[[Tensor], Tensor]) -> tuple[float, Tensor]:
    leaf = logits.clone().requires_grad_()
    value = divergence(leaf.log_softmax(-1))
    value.backward()
    assert leaf.grad is not None
    return float(value.detach()), leaf.grad


LOGITS = torch.tensor([0.3, -1.0, 0.8, 0.1], dtype=torch.float64)
REFERENCE = torch.tensor([-0.2, 0.5, 0.4, 0.0], dtype=torch.float64)
SAMPLER = torch.tensor([0.5, -0.6, 0.2, 0.4], dtype=torch.float64)


def _reverse(logprobs: Tensor) -> Tensor:
    return (logprobs.exp() * (logprobs - REFERENCE.log_softmax(-1))).sum()


def _forward(logprobs: Tensor) -> Tensor:
    reference = REFERENCE.log_softmax(-1)
    return (reference.exp() * (reference - logprobs)).sum()


def test_on_policy_each_estimator_has_its_documented_mean_gradient() -> None:
    kl, reverse = _exact(LOGITS, _reverse)
    _, forward = _exact(LOGITS, _forward)
    _, variation = _exact(LOGITS, lambda logprobs: (logprobs.exp() - REFERENCE.softmax(-1)).abs().sum())
    results = {name: _mean_gradient(LOGITS, REFERENCE, LOGITS, name, unbiased=False) for name in ESTIMATORS}
    # the sampler's probabilities are constants here, as they are in training: only the estimate is differentiated
    assert results["k1"][0] == pytest.approx(kl)
    assert results["k3"][0] == pytest.approx(kl)
    torch.testing.assert_close(results["k1"][1], torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(results["k2"][1], reverse)
    torch.testing.assert_close(results["k3"][1], forward)
    torch.testing.assert_close(results["abs"][1], variation)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_unbiased_estimates_have_value_and_gradient_of_the_divergence_off_policy(estimator: KlEstimator) -> None:
    kl, reverse = _exact(LOGITS, _reverse)
    value, gradient = _mean_gradient(LOGITS, REFERENCE, SAMPLER, estimator, unbiased=True)
    assert value == pytest.approx(kl)
    torch.testing.assert_close(gradient, reverse)
    plain, _ = _mean_gradient(LOGITS, REFERENCE, SAMPLER, estimator, unbiased=False)
    assert plain != pytest.approx(kl, rel=0.01)


def test_the_kl_term_scales_with_its_coefficient_and_ignores_corrections(tokens: Tokens) -> None:
    inner = ClippedPolicy(0.2, 0.28)
    batch = tokens([-2.0, -1.0], [-2.0, -1.0], [1.0, -1.0], corrections=[0.0, 0.5], reference=[-1.0, -1.0])
    results = WithKl(inner, 0.1, estimator="k2").losses(batch).tolist()
    assert results == pytest.approx([0.0 + 0.05, 0.5])
    seen = WithKl(inner, 0.1, estimator="k2").statistics(batch).sums
    assert seen["kl_reference"] == pytest.approx(math.e - 2)
    assert seen["ratio"] == pytest.approx(2.0)
