"""Attention of some queries to keys that all of them see, in both types, against the plain formula."""

import pytest
import torch
from torch import Tensor

from upturn.training.optimisation import dense_attention as rectangle_module
from upturn.training.optimisation.dense_attention import FullAttention, dense, dense_gradient

SCALING = 0.3


def _case(dtype: torch.dtype, queries: int = 37) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values and a gradient from above: 4 query heads on 2 key-value heads of size 8."""
    torch.manual_seed(0)
    shapes = ((queries, 4, 8), (19, 2, 8), (19, 2, 8), (queries, 4, 8))
    first, second, third, fourth = (torch.randn(shape).to(dtype) for shape in shapes)
    return first, second, third, fourth


def _plain(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """``(L, H, D)`` and the log-sum-exp ``(L, H)``."""
    keys, values = (each.repeat_interleave(2, dim=1) for each in (key, value))
    scores = torch.einsum("lhd,chd->lhc", query, keys) * SCALING
    return torch.einsum("lhc,chd->lhd", scores.softmax(-1), values), scores.logsumexp(-1)


def _gap(found: Tensor, expected: Tensor) -> float:
    return float(((found.float() - expected).norm() / expected.norm()).detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tile", [1, 1_000, 1 << 20], ids=["a query at a time", "13 queries", "all at once"])
def test_output_and_gradients_equal_the_plain_formula(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, tile: int
) -> None:
    """bfloat16 has 8 bits: each product and share is rounded by up to 2⁻⁹ = 0.2 %."""
    monkeypatch.setattr(rectangle_module, "_TILE", tile)
    query, key, value, above = _case(dtype)
    exact = [each.float().requires_grad_() for each in (query, key, value)]
    output, summed = _plain(*exact)
    expected = torch.autograd.grad((output * above.float()).sum(), exact)
    found = dense(query, key, value, scaling=SCALING)
    allowed = 1e-5 if dtype == torch.float32 else 0.01
    assert _gap(found.output, output) < allowed
    assert found.summed.dtype == torch.float32
    assert _gap(found.summed, summed) < allowed
    answered = FullAttention(query, output.detach().to(dtype), summed.detach())
    gradients = dense_gradient(above, answered, key, value, scaling=SCALING)
    assert [each.shape for each in gradients] == [query.shape, key.shape, value.shape]
    for gradient, right in zip(gradients, expected, strict=True):
        assert _gap(gradient, right) < allowed


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_joining_two_blocks_equals_attention_over_all_keys(dtype: torch.dtype) -> None:
    """The gradient of a part needs the joined output and log-sum-exp only (arXiv 2205.14135)."""
    query, key, value, above = _case(dtype)
    exact = [each.float().requires_grad_() for each in (query, key, value)]
    output, summed = _plain(*exact)
    expected = torch.autograd.grad((output * above.float()).sum(), exact)
    parts = [dense(query, key[span], value[span], scaling=SCALING) for span in (slice(7), slice(7, None))]
    allowed = 1e-5 if dtype == torch.float32 else 0.01
    assert _gap(torch.logaddexp(parts[0].summed, parts[1].summed), summed) < allowed
    answered = FullAttention(query, output.detach().to(dtype), summed.detach())
    found = [
        dense_gradient(above, answered, key[span], value[span], scaling=SCALING)
        for span in (slice(7), slice(7, None))
    ]
    assert _gap(found[0].query.float() + found[1].query.float(), expected[0]) < allowed
    assert _gap(torch.cat([each.key for each in found]), expected[1]) < allowed
    assert _gap(torch.cat([each.value for each in found]), expected[2]) < allowed


def test_extreme_scores_stay_finite_in_bfloat16() -> None:
    query, key, value, above = _case(torch.bfloat16)
    found = dense(query * 1e4, key, value, scaling=SCALING)
    assert found.output.isfinite().all()
    assert found.summed.isfinite().all()
    answered = FullAttention(query * 1e4, found.output.bfloat16(), found.summed)
    gradients = dense_gradient(above, answered, key, value, scaling=SCALING)
    assert all(each.isfinite().all() for each in gradients)
