"""Log-probabilities from the output layer against torch's own cross-entropy."""

import pytest
import torch
from torch import Tensor, nn

from upturn.training.optimisation import logprob_head as head_module
from upturn.training.optimisation.logprob_head import chosen_logprobs


def _case(bias: bool = False) -> tuple[nn.Linear, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    head = nn.Linear(8, 30, bias=bias)
    return head, torch.randn(11, 8, requires_grad=True), torch.randint(0, 30, (11,)), torch.randn(11)


def _plain(head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    return -nn.functional.cross_entropy(head(hidden), targets, reduction="none")


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "with bias"])
@pytest.mark.parametrize("numbers", [1, 90, 10_000], ids=["a row at a time", "three rows", "all at once"])
def test_values_and_gradients_equal_cross_entropy(numbers: int, bias: bool) -> None:
    head, hidden, targets, weights = _case(bias)
    wanted = _plain(head, hidden, targets)
    expected = torch.autograd.grad((wanted * weights).sum(), [hidden, *head.parameters()])
    found = chosen_logprobs(head, hidden, targets, chunk_numbers=numbers)
    torch.testing.assert_close(found, wanted)
    gradients = torch.autograd.grad((found * weights).sum(), [hidden, *head.parameters()])
    for gradient, right in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, right)


def test_probabilities_not_kept_are_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    head, hidden, targets, weights = _case()
    kept = torch.autograd.grad((chosen_logprobs(head, hidden, targets, chunk_numbers=90) * weights).sum(), hidden)
    monkeypatch.setattr(head_module, "KEPT_NUMBERS", 100)  # the first chunk of 90, no further one
    again = torch.autograd.grad((chosen_logprobs(head, hidden, targets, chunk_numbers=90) * weights).sum(), hidden)
    torch.testing.assert_close(again, kept)


def test_no_chunk_is_kept_after_one_that_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows 4 + 4 + 3 of 30 numbers; the first leaves room for 100: not for the second, but for the third."""
    head, hidden, targets, weights = _case()
    expected = torch.autograd.grad((_plain(head, hidden, targets) * weights).sum(), hidden)
    monkeypatch.setattr(head_module, "KEPT_NUMBERS", 120 + 100)
    found = torch.autograd.grad((chosen_logprobs(head, hidden, targets, chunk_numbers=120) * weights).sum(), hidden)
    torch.testing.assert_close(found, expected)


def test_a_head_that_is_not_trained_gets_no_gradient() -> None:
    head, hidden, targets, weights = _case()
    head.weight.requires_grad_(False)
    expected = torch.autograd.grad((_plain(head, hidden, targets) * weights).sum(), hidden)
    found = torch.autograd.grad((chosen_logprobs(head, hidden, targets, chunk_numbers=90) * weights).sum(), hidden)
    torch.testing.assert_close(found, expected)


def test_extreme_logits_stay_finite() -> None:
    head, hidden, targets, _ = _case()
    with torch.no_grad():
        head.weight *= 1e4
    found = chosen_logprobs(head, hidden, targets)
    assert found.isfinite().all()
    torch.testing.assert_close(found, _plain(head, hidden, targets))


def test_autocast_computes_in_its_type_and_returns_float32() -> None:
    head, hidden, targets, _ = _case()
    with torch.autocast("cpu", torch.bfloat16):
        found = chosen_logprobs(head, hidden, targets)
    found.sum().backward()
    assert found.dtype == torch.float32
    assert head.weight.grad is not None and head.weight.grad.dtype == torch.float32
    torch.testing.assert_close(found, _plain(head, hidden, targets), rtol=0.02, atol=0.05)
