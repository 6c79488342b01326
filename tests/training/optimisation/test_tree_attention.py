"""Attention over a tree against the definition, written out with every score."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from upturn.training.optimisation.tree import TokenTree, token_tree
from upturn.training.optimisation.tree_attention import Backend, tree_attention, visible_tokens
from upturn.training.row import IntArray

CPU = torch.device("cpu")
ON_CPU: tuple[Backend, ...] = ("streamed", "by_node")
BACKENDS: tuple[Backend, ...] = (*ON_CPU, "flex")
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
QUICK = settings(max_examples=40, deadline=None)


def _tree(rows: list[list[int]], least: int = 1) -> tuple[TokenTree, tuple[IntArray, ...]]:
    placed = token_tree([np.array(row, dtype=np.int64) for row in rows], min_shared=least)
    return placed.tree, placed.paths


def _inputs(count: int, *, heads: int = 4, shared: int = 2, size: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(count)
    shapes = ((1, count, heads, size), (1, count, shared, size), (1, count, shared, size))
    q, k, v = (torch.randn(shape, generator=generator).transpose(1, 2).requires_grad_() for shape in shapes)
    return q, k, v


def _by_the_book(query: Tensor, key: Tensor, value: Tensor, paths: tuple[IntArray, ...]) -> Tensor:
    """Row by row, query by query; a token of several rows gets the same from each, the last one is kept."""
    repeat = query.shape[1] // key.shape[1]
    rows: dict[int, Tensor] = {}
    for path in paths:
        for place, token in enumerate(path.tolist()):
            seen = torch.from_numpy(path[: place + 1])
            k, v = (each[0].index_select(1, seen).repeat_interleave(repeat, 0) for each in (key, value))
            scores = torch.einsum("hd,hsd->hs", query[0, :, token], k) * 0.3
            rows[token] = torch.einsum("hs,hsd->hd", scores.softmax(-1), v)
    return torch.stack([rows[token] for token in range(query.shape[2])])[None]


SHAPES = [
    [[1, 2, 3]],
    [[1, 2, 3], [4, 5]],
    [[1, 2, 3, 4], [1, 2, 5], [1, 2, 3, 6, 7], [8]],
    [[1, 2], [1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 0], [1, 1]],
]


@pytest.mark.parametrize("rows", SHAPES)
@pytest.mark.parametrize("backend", ON_CPU)
def test_each_backend_equals_the_definition_in_output_and_gradients(
    rows: list[list[int]], backend: Backend
) -> None:
    tree, paths = _tree(rows)
    inputs = _inputs(len(tree.token_ids))
    expected = _by_the_book(*inputs, paths)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    wanted = torch.autograd.grad((expected * weights).sum(), inputs)
    found = tree_attention(tree, backend, CPU)(*inputs, scaling=0.3)
    gradients = torch.autograd.grad((found * weights).sum(), inputs)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    for gradient, right in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", SHAPES)
def test_flex_equals_the_definition(rows: list[list[int]]) -> None:
    """Its gradient is not to be had on a CPU."""
    tree, paths = _tree(rows)
    query, key, value = (each.detach() for each in _inputs(len(tree.token_ids)))
    found = tree_attention(tree, "flex", CPU)(query, key, value, scaling=0.3)
    torch.testing.assert_close(found, _by_the_book(query, key, value, paths), rtol=1e-5, atol=1e-6)


@QUICK
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=40), min_size=1, max_size=8),
    st.integers(1, 4),
)
def test_streamed_equals_by_node(rows: list[list[int]], least: int) -> None:
    tree, _ = _tree(rows, least)
    inputs = _inputs(len(tree.token_ids))
    found, expected = (
        tree_attention(tree, backend, CPU)(*inputs, scaling=0.3) for backend in ("streamed", "by_node")
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for one, other in zip(
        torch.autograd.grad(found.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches_do_not_attend_to_each_other(backend: Backend) -> None:
    """ART PR 666: a plain causal mask over a packed group lets completion B attend to completion A."""
    tree, paths = _tree([[1, 2, 3, 4], [1, 2, 5, 6]])
    query, key, value = (each.detach() for each in _inputs(len(tree.token_ids)))
    attention = tree_attention(tree, backend, CPU)
    before = attention(query, key, value, scaling=0.3)
    sibling = torch.from_numpy(paths[0][2:])
    key[:, :, sibling] += 100.0
    value[:, :, sibling] -= 100.0
    after = attention(query, key, value, scaling=0.3)
    other = torch.from_numpy(paths[1])
    torch.testing.assert_close(after[:, other], before[:, other])
    assert (after[:, sibling] - before[:, sibling]).abs().max() > 1


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_long_nodes_are_split_into_chains(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr("upturn.training.optimisation.tree_attention.CHUNK", chunk)
    tree, paths = _tree([[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 8, 9], [1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4]])
    inputs = _inputs(len(tree.token_ids))
    found, expected = tree_attention(tree, "streamed", CPU)(*inputs, scaling=0.3), _by_the_book(*inputs, paths)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    gradients = torch.autograd.grad(found.square().sum(), inputs)
    for gradient, right in zip(gradients, torch.autograd.grad(expected.square().sum(), inputs), strict=True):
        torch.testing.assert_close(gradient, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", SHAPES)
def test_the_last_layer_computes_needed_queries_only(rows: list[list[int]]) -> None:
    """Output and gradients are those of all queries, as long as only the needed ones are used."""
    tree, _ = _tree(rows)
    inputs = _inputs(len(tree.token_ids))
    needed = np.arange(1, len(tree.token_ids), 2)
    whole = tree_attention(tree, "streamed", CPU)(*inputs, scaling=0.3)[:, needed]
    narrow = tree_attention(tree, "streamed", CPU, needed=needed)
    found = narrow(*inputs, scaling=0.3, is_last=True)
    assert found.isfinite().all()
    torch.testing.assert_close(found[:, needed], whole)
    gradients = torch.autograd.grad(found[:, needed].square().sum(), inputs)
    for gradient, right in zip(gradients, torch.autograd.grad(whole.square().sum(), inputs), strict=True):
        torch.testing.assert_close(gradient, right, rtol=1e-5, atol=1e-6)
    everywhere = narrow(*inputs, scaling=0.3)
    torch.testing.assert_close(everywhere, tree_attention(tree, "streamed", CPU)(*inputs, scaling=0.3))


def test_visible_tokens_are_the_path_to_the_node() -> None:
    tree, _ = _tree([[1, 2, 3], [1, 2, 4, 5]])
    assert [each.tolist() for each in visible_tokens(tree)] == [[0, 1], [0, 1, 2], [0, 1, 3, 4]]


def test_streamed_is_refused_off_the_cpu() -> None:
    tree, _ = _tree([[1]])
    with pytest.raises(ValueError, match="runs on a CPU only"):
        tree_attention(tree, "streamed", torch.device("meta"))


def test_streamed_in_bfloat16_is_close_to_float32() -> None:
    tree, _ = _tree(SHAPES[2])
    inputs = _inputs(len(tree.token_ids))
    attention = tree_attention(tree, "streamed", CPU)
    exact = attention(*inputs, scaling=0.3)
    query, key, value = (each.bfloat16() for each in inputs)
    rough = attention(query, key, value, scaling=0.3)
    assert rough.dtype == torch.bfloat16
    torch.testing.assert_close(rough.float(), exact, rtol=0.05, atol=0.05)
