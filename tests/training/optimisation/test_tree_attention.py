"""Attention over a tree, compared with an implementation of the definition that holds every score."""

import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from upturn.training.optimisation.attention import flash
from upturn.training.optimisation.attention.tree_backends import (
    Backend,
    tree_attention,
    visible_blocks,
    visible_tokens,
)
from upturn.training.optimisation.tree import TokenTree, token_tree
from upturn.training.row import IntArray

CPU = torch.device("cpu")
ON_CPU: tuple[Backend, ...] = ("streamed", "by_node")
BACKENDS: tuple[Backend, ...] = (*ON_CPU, "flex")
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
QUICK = settings(max_examples=40, deadline=None)


def _tree(rows: list[list[int]], min_shared: int = 1) -> tuple[TokenTree, tuple[IntArray, ...]]:
    packed = token_tree([np.array(row, dtype=np.int64) for row in rows], min_shared=min_shared)
    return packed.tree, packed.paths


def _inputs(count: int, *, heads: int = 4, shared: int = 2, size: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(count)
    shapes = ((1, count, heads, size), (1, count, shared, size), (1, count, shared, size))
    q, k, v = (torch.randn(shape, generator=generator).transpose(1, 2).requires_grad_() for shape in shapes)
    return q, k, v


def _attention_by_definition(query: Tensor, key: Tensor, value: Tensor, paths: tuple[IntArray, ...]) -> Tensor:
    """Row by row, query by query; a token in several rows gets the same result in each."""
    repeat = query.shape[1] // key.shape[1]
    rows: dict[int, Tensor] = {}
    for path in paths:
        for depth, token in enumerate(path.tolist()):
            visible = torch.from_numpy(path[: depth + 1])
            k, v = (tensor[0].index_select(1, visible).repeat_interleave(repeat, 0) for tensor in (key, value))
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
    expected = _attention_by_definition(*inputs, paths)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    expected_gradients = torch.autograd.grad((expected * weights).sum(), inputs)
    output = tree_attention(tree, backend, CPU)(*inputs, scaling=0.3)
    gradients = torch.autograd.grad((output * weights).sum(), inputs)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-5, atol=1e-6)


def _sequences(query: Tensor, key: Tensor, arguments: tuple[Any, ...]) -> Iterator[tuple[slice, slice, Tensor]]:
    """Queries, keys and hidden scores of each sequence of a flash call."""
    query_ends, key_ends, longest_query, longest_key, dropout, is_causal = arguments[:6]
    assert dropout == 0.0 and query_ends.dtype == key_ends.dtype == torch.int32
    pairs = [[slice(*pair) for pair in pairwise(ends.tolist())] for ends in (query_ends, key_ends)]
    lengths = [max(part.stop - part.start for part in parts) for parts in pairs]
    assert lengths == [longest_query, longest_key]
    assert [parts[-1].stop for parts in pairs] == [len(query), len(key)]
    for queries, keys in zip(*pairs, strict=True):
        shape = queries.stop - queries.start, keys.stop - keys.start
        yield queries, keys, torch.ones(shape, dtype=torch.bool).triu(1) if is_causal else torch.zeros(shape).bool()


def _flash(query: Tensor, key: Tensor, value: Tensor, *arguments: Any, scale: float) -> tuple[Tensor, Tensor]:
    """What the CUDA kernel computes: ``(n, H, D)`` and ``(H, n)``."""
    heads = query.shape[1] // key.shape[1]
    outputs, sums = [], []
    for queries, keys, hidden in _sequences(query, key, arguments):
        k, v = (tensor[keys].repeat_interleave(heads, 1) for tensor in (key, value))
        scores = torch.einsum("qhd,khd->hqk", query[queries], k).mul(scale).masked_fill(hidden, -torch.inf)
        outputs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v))
        sums.append(scores.logsumexp(-1))
    return torch.cat(outputs), torch.cat(sums, dim=1)


def _flash_gradient(
    above: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    lse: Tensor,
    *arguments: Any,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """What the CUDA kernel computes: from the log-sum-exp and the output that it is given."""
    heads = query.shape[1] // key.shape[1]
    d_query, d_key, d_value = (torch.zeros_like(tensor) for tensor in (query, key, value))
    inner = (above * output).sum(-1).T
    for queries, keys, hidden in _sequences(query, key, arguments):
        k, v = (tensor[keys].repeat_interleave(heads, 1) for tensor in (key, value))
        scores = torch.einsum("qhd,khd->hqk", query[queries], k).mul(scale).masked_fill(hidden, -torch.inf)
        shares = (scores - lse[:, queries, None]).exp()
        slopes = shares * (torch.einsum("qhd,khd->hqk", above[queries], v) - inner[:, queries, None]) * scale
        d_query[queries] = torch.einsum("hqk,khd->qhd", slopes, k)
        for total, part in (
            (d_key, torch.einsum("hqk,qhd->khd", slopes, query[queries])),
            (d_value, torch.einsum("hqk,qhd->khd", shares, above[queries])),
        ):
            total[keys] = part.unflatten(1, (-1, heads)).sum(2)
    return d_query, d_key, d_value


DEEP = [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6, 7], [1, 2, 8, 9], [1, 2, 8, 1, 2], [3, 3, 1], [3, 3, 2, 1], [5]]


@pytest.mark.parametrize("rows", [*SHAPES, DEEP])
def test_flash_equals_the_definition_in_output_and_gradients(
    rows: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the CUDA kernels replaced by their definition."""
    monkeypatch.setattr(flash, "FLASH", _flash)
    monkeypatch.setattr(flash, "FLASH_GRADIENT", _flash_gradient)
    tree, paths = _tree(rows)
    inputs = _inputs(len(tree.token_ids))
    expected = _attention_by_definition(*inputs, paths)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    expected_gradients = torch.autograd.grad((expected * weights).sum(), inputs)
    output = tree_attention(tree, "flash", CPU)(*inputs, scaling=0.3)
    gradients = torch.autograd.grad((output * weights).sum(), inputs)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-5, atol=1e-6)


def test_flash_makes_a_call_for_each_depth_with_children() -> None:
    tree, _ = _tree(DEEP)
    calls = flash.levels(tree, CPU)
    assert [call.is_causal for call in calls] == [True, False, False]
    assert calls[0].queries == calls[0].keys == slice(0, len(tree.token_ids))
    assert [len(call.query_ends) - 1 for call in calls] == [len(tree.starts), 2, 2]


@pytest.mark.parametrize("rows", SHAPES)
def test_flex_equals_the_definition(rows: list[list[int]]) -> None:
    """It has no gradient on a CPU."""
    tree, paths = _tree(rows)
    query, key, value = (tensor.detach() for tensor in _inputs(len(tree.token_ids)))
    output = tree_attention(tree, "flex", CPU)(query, key, value, scaling=0.3)
    torch.testing.assert_close(output, _attention_by_definition(query, key, value, paths), rtol=1e-5, atol=1e-6)


@QUICK
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=40), min_size=1, max_size=8),
    st.integers(1, 4),
)
def test_streamed_equals_by_node(rows: list[list[int]], min_shared: int) -> None:
    tree, _ = _tree(rows, min_shared)
    inputs = _inputs(len(tree.token_ids))
    streamed, by_node = (
        tree_attention(tree, backend, CPU)(*inputs, scaling=0.3) for backend in ("streamed", "by_node")
    )
    torch.testing.assert_close(streamed, by_node, rtol=1e-4, atol=1e-5)
    for gradient, expected_gradient in zip(
        torch.autograd.grad(streamed.square().sum(), inputs),
        torch.autograd.grad(by_node.square().sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches_do_not_attend_to_each_other(backend: Backend) -> None:
    """ART PR 666: a plain causal mask over a packed group lets completion B attend to completion A."""
    tree, paths = _tree([[1, 2, 3, 4], [1, 2, 5, 6]])
    query, key, value = (tensor.detach() for tensor in _inputs(len(tree.token_ids)))
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
    monkeypatch.setattr("upturn.training.optimisation.attention.tree_backends.CHUNK", chunk)
    tree, paths = _tree([[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 8, 9], [1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4]])
    inputs = _inputs(len(tree.token_ids))
    output, expected = (
        tree_attention(tree, "streamed", CPU)(*inputs, scaling=0.3),
        _attention_by_definition(*inputs, paths),
    )
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
    gradients = torch.autograd.grad(output.square().sum(), inputs)
    for gradient, expected_gradient in zip(
        gradients, torch.autograd.grad(expected.square().sum(), inputs), strict=True
    ):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", SHAPES)
def test_the_last_layer_computes_predictors_only(rows: list[list[int]]) -> None:
    """Output and gradients equal those of all queries, as long as only predictors are used."""
    tree, _ = _tree(rows)
    inputs = _inputs(len(tree.token_ids))
    predictors = np.arange(1, len(tree.token_ids), 2)
    expected = tree_attention(tree, "streamed", CPU)(*inputs, scaling=0.3)[:, predictors]
    attention = tree_attention(tree, "streamed", CPU, predictors=predictors)
    output = attention(*inputs, scaling=0.3, is_last=True)
    assert output.isfinite().all()
    torch.testing.assert_close(output[:, predictors], expected)
    gradients = torch.autograd.grad(output[:, predictors].square().sum(), inputs)
    for gradient, expected_gradient in zip(
        gradients, torch.autograd.grad(expected.square().sum(), inputs), strict=True
    ):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-5, atol=1e-6)
    all_queries = attention(*inputs, scaling=0.3)
    torch.testing.assert_close(all_queries, tree_attention(tree, "streamed", CPU)(*inputs, scaling=0.3))


def test_visible_tokens_are_the_path_to_the_node() -> None:
    tree, _ = _tree([[1, 2, 3], [1, 2, 4, 5]])
    assert [tokens.tolist() for tokens in visible_tokens(tree)] == [[0, 1], [0, 1, 2], [0, 1, 3, 4]]


def test_streamed_is_refused_off_the_cpu() -> None:
    tree, _ = _tree([[1]])
    with pytest.raises(ValueError, match="runs on a CPU only"):
        tree_attention(tree, "streamed", torch.device("meta"))


def test_streamed_in_bfloat16_is_close_to_float32() -> None:
    tree, _ = _tree(SHAPES[2])
    inputs = _inputs(len(tree.token_ids))
    attention = tree_attention(tree, "streamed", CPU)
    exact = attention(*inputs, scaling=0.3)
    query, key, value = (tensor.bfloat16() for tensor in inputs)
    rough = attention(query, key, value, scaling=0.3)
    assert rough.dtype == torch.bfloat16
    torch.testing.assert_close(rough.float(), exact, rtol=0.05, atol=0.05)


@QUICK
@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=60), min_size=1, max_size=8),
    st.sampled_from([2, 4, 8]),
)
def test_visible_blocks_are_those_of_the_definition(rows: list[list[int]], block: int) -> None:
    tree, _ = _tree(rows)
    reach = np.repeat(tree.subtree_stops, tree.stops - tree.starts)
    count = len(reach)
    queries, keys = np.ogrid[:count, :count]
    padded = -(-count // block) * block
    is_visible = np.zeros((padded, padded), dtype=bool)
    is_visible[:count, :count] = (keys <= queries) & (queries < reach[keys])
    blocks = is_visible.reshape(padded // block, block, padded // block, block)
    is_any, is_all = blocks.any(axis=(1, 3)), blocks.all(axis=(1, 3))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("upturn.training.optimisation.attention.tree_backends.BLOCK", block)
        partial, full = visible_blocks(reach)
    assert (full == is_all).all()
    assert (partial == (is_any & ~is_all)).all()


def test_flex_with_several_blocks_equals_by_node() -> None:
    """461 tokens in four blocks: one whole block of a shared prefix, and branches that end within blocks."""
    shared = list(range(200))
    tree, _ = _tree([[*shared, *range(300, 390)], [*shared, *range(400, 571)]], min_shared=16)
    query, key, value = (tensor.detach() for tensor in _inputs(len(tree.token_ids)))
    flex, by_node = (
        tree_attention(tree, backend, CPU)(query, key, value, scaling=0.3) for backend in ("flex", "by_node")
    )
    torch.testing.assert_close(flex, by_node, rtol=1e-4, atol=1e-5)


def test_the_mask_of_32k_tokens_needs_less_than_64_mb() -> None:
    """Eight rows of 16k tokens share their first half: 73,728 tokens. One pair of tokens a byte would be 5.4 GB."""
    prefix = np.arange(8192)
    rows = [np.concatenate([prefix, np.full(8192, 100_000 + row)]) for row in range(8)]
    tree = token_tree(rows, min_shared=16).tree
    assert len(tree.token_ids) == 9 * 8192
    tracemalloc.start()
    tree_attention(tree, "flex", CPU)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6
