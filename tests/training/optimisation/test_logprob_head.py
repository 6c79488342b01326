"""Log-probabilities from the output layer, compared with torch's cross-entropy."""

import pytest
import torch
from torch import Tensor, nn

from upturn.training.optimisation import logprob_head as head_module
from upturn.training.optimisation.logprob_head import chosen_logprobs


def _case(bias: bool = False) -> tuple[nn.Linear, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    head = nn.Linear(8, 30, bias=bias)
    return head, torch.randn(11, 8, requires_grad=True), torch.randint(0, 30, (11,)), torch.randn(11)


def _plain_logprobs(head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    return -nn.functional.cross_entropy(head(hidden), targets, reduction="none")


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "with bias"])
@pytest.mark.parametrize("numbers", [1, 90, 10_000], ids=["a row at a time", "three rows", "all at once"])
def test_values_and_gradients_equal_cross_entropy(numbers: int, bias: bool) -> None:
    head, hidden, targets, weights = _case(bias)
    expected = _plain_logprobs(head, hidden, targets)
    expected_gradients = torch.autograd.grad((expected * weights).sum(), [hidden, *head.parameters()])
    logprobs = chosen_logprobs(head, hidden, targets, chunk_numbers=numbers)
    torch.testing.assert_close(logprobs, expected)
    gradients = torch.autograd.grad((logprobs * weights).sum(), [hidden, *head.parameters()])
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient)


def test_probabilities_not_kept_are_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    head, hidden, targets, weights = _case()
    kept = torch.autograd.grad((chosen_logprobs(head, hidden, targets, chunk_numbers=90) * weights).sum(), hidden)
    monkeypatch.setattr(head_module, "KEPT_NUMBERS", 100)  # the first chunk of 90, no further one
    recomputed = torch.autograd.grad(
        (chosen_logprobs(head, hidden, targets, chunk_numbers=90) * weights).sum(), hidden
    )
    torch.testing.assert_close(recomputed, kept)


def test_no_chunk_is_kept_after_one_that_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 4, 4 and 3 rows of 30 numbers; after the first, 100 are left: enough only for the third."""
    head, hidden, targets, weights = _case()
    expected = torch.autograd.grad((_plain_logprobs(head, hidden, targets) * weights).sum(), hidden)
    monkeypatch.setattr(head_module, "KEPT_NUMBERS", 120 + 100)
    actual = torch.autograd.grad(
        (chosen_logprobs(head, hidden, targets, chunk_numbers=120) * weights).sum(), hidden
    )
    torch.testing.assert_close(actual, expected)


def test_a_head_that_is_not_trained_gets_no_gradient() -> None:
    head, hidden, targets, weights = _case()
    head.weight.requires_grad_(False)
    expected = torch.autograd.grad((_plain_logprobs(head, hidden, targets) * weights).sum(), hidden)
    actual = torch.autograd.grad((chosen_logprobs(head, hidden, targets, chunk_numbers=90) * weights).sum(), hidden)
    torch.testing.assert_close(actual, expected)


def test_extreme_logits_stay_finite() -> None:
    head, hidden, targets, _ = _case()
    with torch.no_grad():
        head.weight *= 1e4
    logprobs = chosen_logprobs(head, hidden, targets)
    assert logprobs.isfinite().all()
    torch.testing.assert_close(logprobs, _plain_logprobs(head, hidden, targets))


def test_autocast_computes_in_its_type_and_returns_float32() -> None:
    head, hidden, targets, _ = _case()
    with torch.autocast("cpu", torch.bfloat16):
        logprobs = chosen_logprobs(head, hidden, targets)
    logprobs.sum().backward()
    assert logprobs.dtype == torch.float32
    assert head.weight.grad is not None and head.weight.grad.dtype == torch.float32
    torch.testing.assert_close(logprobs, _plain_logprobs(head, hidden, targets), rtol=0.02, atol=0.05)
