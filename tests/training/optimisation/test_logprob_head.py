"""Log-probabilities from the output layer, compared with torch's cross-entropy."""

import math

import pytest
import torch
from torch import Tensor, nn

from upturn.training.optimisation import logprob_head as head_module
from upturn.training.optimisation.logprob_head import chosen_logprobs, logprobs_and_entropies


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


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "with bias"])
@pytest.mark.parametrize("kept", [0, 120, 10_000], ids=["recomputed", "one chunk kept", "all kept"])
@pytest.mark.parametrize("is_tempered", [False, True], ids=["at 1", "tempered"])
def test_entropies_and_tempered_logprobs_equal_plain_torch(
    bias: bool, kept: int, is_tempered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, hidden, targets, weights = _case(bias)
    monkeypatch.setattr(head_module, "KEPT_NUMBERS", kept)
    temperatures = torch.linspace(0.5, 1.5, 11) if is_tempered else None
    inputs, bonus = [hidden, *head.parameters()], torch.linspace(-1, 2, 11)
    plain = head(hidden) / (1.0 if temperatures is None else temperatures[:, None])
    expected = torch.stack(
        [
            plain.log_softmax(-1).gather(1, targets[:, None])[:, 0],
            -(plain.softmax(-1) * plain.log_softmax(-1)).sum(-1),
        ]
    )
    actual = logprobs_and_entropies(head, hidden, targets, temperatures=temperatures, chunk_numbers=90)
    torch.testing.assert_close(actual, expected)
    alone = chosen_logprobs(head, hidden, targets, temperatures=temperatures, chunk_numbers=90)
    torch.testing.assert_close(alone, expected[0])
    factors = torch.stack([weights, bonus])
    for ours, theirs in ((actual * factors, expected * factors), (alone * weights, expected[0] * weights)):
        gradients = torch.autograd.grad(ours.sum(), inputs)
        expected_gradients = torch.autograd.grad(theirs.sum(), inputs, retain_graph=True)
        for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
            torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


def test_an_impossible_token_has_no_entropy_and_no_gradient_of_it() -> None:
    head = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 0.0], [-1000.0, 0.0]]))
    hidden = torch.tensor([[1.0, 0.0]], requires_grad=True)
    _, entropies = logprobs_and_entropies(head, hidden, torch.tensor([0]))
    assert entropies.tolist() == pytest.approx([math.log(2)])
    (gradient,) = torch.autograd.grad(entropies.sum(), hidden)
    assert gradient.tolist() == [[0.0, 0.0]]
