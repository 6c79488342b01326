"""Dense attention in both types, compared with the plain formula."""

import pytest
import torch
from torch import Tensor

from upturn.training.optimisation.attention import dense as dense_attention_module
from upturn.training.optimisation.attention.dense import Attention, dense, dense_gradient

SCALING = 0.3


def _case(dtype: torch.dtype, queries: int = 37) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values and a gradient from above: 4 query heads on 2 key-value heads of size 8."""
    torch.manual_seed(0)
    shapes = ((queries, 4, 8), (19, 2, 8), (19, 2, 8), (queries, 4, 8))
    first, second, third, fourth = (torch.randn(shape).to(dtype) for shape in shapes)
    return first, second, third, fourth


def _plain_attention(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """``(L, H, D)`` and the log-sum-exp ``(L, H)``."""
    keys, values = (tensor.repeat_interleave(2, dim=1) for tensor in (key, value))
    scores = torch.einsum("lhd,chd->lhc", query, keys) * SCALING
    return torch.einsum("lhc,chd->lhd", scores.softmax(-1), values), scores.logsumexp(-1)


def _relative_error(actual: Tensor, expected: Tensor) -> float:
    return float(((actual.float() - expected).norm() / expected.norm()).detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tile", [1, 1_000, 1 << 20], ids=["a query at a time", "13 queries", "all at once"])
def test_output_and_gradients_equal_the_plain_formula(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, tile: int
) -> None:
    """bfloat16 has 8 bits: each product and share is rounded by up to 2⁻⁹ = 0.2 %."""
    monkeypatch.setattr(dense_attention_module, "_TILE", tile)
    query, key, value, above = _case(dtype)
    exact = [tensor.float().requires_grad_() for tensor in (query, key, value)]
    output, lse = _plain_attention(*exact)
    expected = torch.autograd.grad((output * above.float()).sum(), exact)
    actual = dense(query, key, value, scaling=SCALING)
    allowed = 1e-5 if dtype == torch.float32 else 0.01
    assert _relative_error(actual.output, output) < allowed
    assert actual.lse.dtype == torch.float32
    assert _relative_error(actual.lse, lse) < allowed
    full = Attention(output.detach().to(dtype), lse.detach())
    gradients = dense_gradient(above, query, key, value, full=full, scaling=SCALING)
    assert [tensor.shape for tensor in gradients] == [query.shape, key.shape, value.shape]
    for gradient, expected_gradient in zip(gradients, expected, strict=True):
        assert _relative_error(gradient, expected_gradient) < allowed


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_joining_two_blocks_equals_attention_over_all_keys(dtype: torch.dtype) -> None:
    """The gradient of a part needs the joined output and log-sum-exp only (arXiv 2205.14135)."""
    query, key, value, above = _case(dtype)
    exact = [tensor.float().requires_grad_() for tensor in (query, key, value)]
    output, lse = _plain_attention(*exact)
    expected = torch.autograd.grad((output * above.float()).sum(), exact)
    parts = [dense(query, key[span], value[span], scaling=SCALING) for span in (slice(7), slice(7, None))]
    allowed = 1e-5 if dtype == torch.float32 else 0.01
    assert _relative_error(torch.logaddexp(parts[0].lse, parts[1].lse), lse) < allowed
    full = Attention(output.detach().to(dtype), lse.detach())
    gradients = [
        dense_gradient(above, query, key[span], value[span], full=full, scaling=SCALING)
        for span in (slice(7), slice(7, None))
    ]
    assert _relative_error(gradients[0].query.float() + gradients[1].query.float(), expected[0]) < allowed
    assert _relative_error(torch.cat([part.key for part in gradients]), expected[1]) < allowed
    assert _relative_error(torch.cat([part.value for part in gradients]), expected[2]) < allowed


def test_extreme_scores_stay_finite_in_bfloat16() -> None:
    query, key, value, above = _case(torch.bfloat16)
    attention = dense(query * 1e4, key, value, scaling=SCALING)
    assert attention.output.isfinite().all()
    assert attention.lse.isfinite().all()
    full = Attention(attention.output.bfloat16(), attention.lse)
    gradients = dense_gradient(above, query * 1e4, key, value, full=full, scaling=SCALING)
    assert all(tensor.isfinite().all() for tensor in gradients)
