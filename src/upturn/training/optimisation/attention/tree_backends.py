"""Causal attention over a token tree: each token attends to its node up to itself, and to all ancestors' tokens.

Letters: N tokens of the tree, H query heads, K key-value heads (H a multiple of K), D their size. Queries and keys
are already rotated by their depth. Four backends compute the same result:

* ``streamed`` (CPU): no mask and no copy of the keys. Every node's own causal attention, batched by similar length;
  then, for every node with descendants, all queries of the descendants, one range of the layout, against the node's
  keys. The parts are joined by their log-sum-exp, as flash attention joins blocks (arXiv 2205.14135); the backward
  pass of a part needs only the joined output and log-sum-exp, so the kernel's own backward pass works for each.
* ``flash`` (CUDA, bfloat16): the same parts as ``streamed``, with flash attention's own kernels: one call for all
  nodes and one for each depth of the tree.
* ``flex`` (CUDA): one call of FlexAttention with one block mask per layout.
* ``by_node`` (any device): one call of scaled-dot-product attention per node, against the keys of its path.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from upturn.training.optimisation.attention.dense import (
    FUSED,
    FUSED_GRADIENT,
    Attention,
    dense,
    dense_gradient,
    heads_first,
)
from upturn.training.optimisation.attention.flash import Level, attend_by_level, levels
from upturn.training.optimisation.tree import TokenTree
from upturn.training.row import IntArray

Backend = Literal["streamed", "flash", "flex", "by_node"]

CHUNK = 192
"""Tokens of a node in one causal call. The kernel computes much of what a causal mask hides, but no masked score of
dense blocks, so a long node is split into a chain: a sixth faster for nodes of 1,000 tokens; with 256 to 1,024
tokens it gains less, with 128 there are too many calls."""
_WASTE = 1.25
"""Padded tokens per real one up to which nodes of different length are computed together."""


BLOCK = 128
"""Tokens of a block of FlexAttention."""
_CACHED_MASKS = 8
"""Block masks in memory: a layout returns with every layer and with every pass over the same rows."""


class _Block(NamedTuple):
    """Nodes whose own attention is computed in one call."""

    indices: Tensor | None
    """``(B, L)``: their tokens, the last one repeated as padding; None = one node, ``start:stop``."""
    is_real: Tensor | None
    """``(B, L)``: False for padding; None = no padding."""
    start: int
    stop: int


class _Predictors(NamedTuple):
    """The n queries whose result is used in the last layer."""

    queries: Tensor
    """``(n,)``, ascending."""
    ranges: tuple[slice, ...]
    """The range among the n of each parent's descendants."""


class _Chunk(NamedTuple):
    """A chunk ``start:stop`` of a node; the queries ``stop:subtree_stop`` after it attend to all its keys."""

    start: int
    stop: int
    subtree_stop: int


@dataclass(frozen=True, slots=True, eq=False)
class TreeAttention:
    """A tree prepared for attention; made once and used by every layer."""

    tree: TokenTree
    backend: Backend
    blocks: tuple[_Block, ...]
    """For ``streamed``; empty for the others."""
    parents: tuple[_Chunk, ...]
    """For ``streamed``: the chunks with descendants, from the roots down."""
    predictors: _Predictors | None
    """For ``streamed``; None = all queries are used, or the backend computes all anyway."""
    visible: tuple[Tensor, ...]
    """For ``by_node``: the tokens that each node attends to, in order. Empty for the others."""
    block_mask: object
    """For ``flex``; None for the others."""
    levels: tuple[Level, ...] = ()
    """For ``flash``; empty for the others."""

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, *, scaling: float, is_last: bool = False
    ) -> Tensor:
        """``(1, N, H, D)`` from queries ``(1, H, N, D)`` and keys and values ``(1, K, N, D)``.

        ``is_last``: in the last layer only predictors are used; the result for other queries is finite, and their
        gradient must be 0.
        """
        match self.backend:
            case "streamed":
                apply: Callable[..., Tensor] = _Streamed.apply  # untyped in torch
                size, more = value.shape[-1], key.shape[-1] - value.shape[-1]
                if more:  # as in DeepSeek-V3; the kernels need one size
                    value = torch.nn.functional.pad(value, (0, more))
                output = apply(query, key, value, _Call(self, scaling, self.predictors if is_last else None))
                return output[..., :size] if more else output
            case "flash":
                tokens_first = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
                return attend_by_level(*tokens_first, calls=self.levels, scaling=scaling)[None]
            case "flex":
                return _flex(query, key, value, scaling=scaling, block_mask=self.block_mask)
            case "by_node":
                return _by_node(query, key, value, scaling=scaling, attention=self)


def tree_attention(
    tree: TokenTree, backend: Backend, device: torch.device, *, predictors: IntArray | None = None
) -> TreeAttention:
    """Prepares a backend for a tree; ``predictors``: tokens whose last hidden state is used, ascending; None = all.

    Raises ValueError for ``streamed`` anywhere but on a CPU.
    """
    if backend == "streamed":
        if device.type != "cpu":
            raise ValueError(f"backend 'streamed' runs on a CPU only, the model is on {device}; use 'flex'")
        chunks = _chunks(tree)
        parents = tuple(chunk for chunk in chunks if chunk.subtree_stop > chunk.stop)
        ranges = None if predictors is None else _predictor_ranges(predictors, parents)
        return TreeAttention(tree, backend, tuple(_blocks(chunks)), parents, ranges, (), None)
    if backend == "flash":
        return TreeAttention(tree, backend, (), (), None, (), None, levels(tree, device))
    if backend == "flex":
        return TreeAttention(tree, backend, (), (), None, (), _block_mask(tree, device))
    visible = tuple(torch.from_numpy(tokens).to(device) for tokens in visible_tokens(tree))
    return TreeAttention(tree, backend, (), (), None, visible, None)


def _predictor_ranges(queries: IntArray, parents: Sequence[_Chunk]) -> _Predictors:
    first = np.searchsorted(queries, [chunk.stop for chunk in parents])
    last = np.searchsorted(queries, [chunk.subtree_stop for chunk in parents])
    ranges = (slice(start, stop) for start, stop in zip(first.tolist(), last.tolist(), strict=True))
    return _Predictors(torch.from_numpy(queries), tuple(ranges))


def visible_tokens(tree: TokenTree) -> list[IntArray]:
    """For each node: its ancestors' tokens from the root down, then its own."""
    visible: list[IntArray] = []
    for start, stop, parent in zip(tree.starts, tree.stops, tree.parents, strict=True):
        tokens = np.arange(start, stop)
        visible.append(tokens if parent < 0 else np.concatenate([visible[parent], tokens]))
    return visible


def _chunks(tree: TokenTree) -> list[_Chunk]:
    """The tree with long nodes split into chains, from the roots down."""
    nodes = zip(tree.starts.tolist(), tree.stops.tolist(), tree.subtree_stops.tolist(), strict=True)
    return [
        _Chunk(at, min(at + CHUNK, stop), subtree_stop)
        for start, stop, subtree_stop in nodes
        for at in range(start, stop, CHUNK)
    ]


def _blocks(chunks: Sequence[_Chunk]) -> list[_Block]:
    """The chunks grouped by length, while padding stays small."""
    lengths = np.array([chunk.stop - chunk.start for chunk in chunks])
    order = np.argsort(-lengths, kind="stable")
    cuts, real = [0], 0
    for position, index in enumerate(order):
        count = position - cuts[-1]
        if count and lengths[order[cuts[-1]]] * (count + 1) > _WASTE * (real + lengths[index]):
            cuts.append(position)
            real = 0
        real += int(lengths[index])
    return [_block([chunks[index] for index in order[first:last]]) for first, last in pairwise([*cuts, len(order)])]


def _block(chunks: Sequence[_Chunk]) -> _Block:
    if len(chunks) == 1:
        return _Block(None, None, chunks[0].start, chunks[0].stop)
    starts = np.array([chunk.start for chunk in chunks])[:, None]
    stops = np.array([chunk.stop for chunk in chunks])[:, None]
    columns = starts + np.arange(int((stops - starts).max()))
    is_real = columns < stops
    indices = torch.from_numpy(np.minimum(columns, stops - 1))
    return _Block(indices, None if is_real.all() else torch.from_numpy(is_real), 0, 0)


class _Call(NamedTuple):
    """Arguments other than tensors that forward and backward pass of a call share."""

    attention: TreeAttention
    scaling: float
    predictors: _Predictors | None


class _Streamed(torch.autograd.Function):
    """Works on ``(N, heads, D)`` views of its arguments, so that a node or a range is a slice."""

    @staticmethod
    def forward(  # noqa: PLR0917  # autograd passes arguments by position
        ctx: Any,  # autograd's context is open-ended
        query: Tensor,
        key: Tensor,
        value: Tensor,
        call: _Call,
    ) -> Tensor:
        attention, scaling, predictors = call
        q, k, v = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
        output = torch.empty(q.shape, dtype=torch.float32)
        lse = torch.empty(q.shape[:2], dtype=torch.float32)
        for block in attention.blocks:
            block_output, block_lse = FUSED(*(_gather(x, block) for x in (q, k, v)), 0.0, True, scale=scaling)
            _scatter(output, block, block_output.transpose(1, 2))
            _scatter(lse, block, block_lse.transpose(1, 2))
        used_q, used_output, used_lse = (
            x if predictors is None else x[predictors.queries] for x in (q, output, lse)
        )
        for (start, stop, _), below in _descendants(attention, predictors):
            further = dense(used_q[below], k[start:stop], v[start:stop], scaling=scaling)
            _join(used_output[below], used_lse[below], further)
        if predictors is not None:
            output[predictors.queries], lse[predictors.queries] = used_output, used_lse
        result = output.to(query.dtype)
        ctx.save_for_backward(query, key, value, result, lse)
        ctx.call = call
        return result[None]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, lse = ctx.saved_tensors
        call: _Call = ctx.call
        attention, scaling, predictors = call
        q, k, v = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
        gradient = gradients[0][0].to(q.dtype)
        d_q, d_k, d_v = (torch.empty(x.shape, dtype=x.dtype) for x in (q, k, v))
        for block in attention.blocks:
            received, *inputs = (_gather(x, block) for x in (gradient, q, k, v, output))
            if block.is_real is not None:  # padded queries repeat a real one and must not count twice
                received = received.masked_fill(~block.is_real[:, None, :, None], 0.0)
            block_lse = _gather(lse[..., None], block)[..., 0]
            parts = FUSED_GRADIENT(received, *inputs, block_lse, 0.0, True, scale=scaling)
            for total, part in zip((d_q, d_k, d_v), parts, strict=True):
                _scatter(total, block, part.transpose(1, 2))
        received, used_q, used_output, used_lse = (
            x if predictors is None else x[predictors.queries] for x in (gradient, q, output, lse)
        )
        d_used_q = d_q if predictors is None else torch.zeros_like(used_q)
        for (start, stop, _), below in _descendants(attention, predictors):
            full = Attention(used_output[below], used_lse[below])
            block_inputs = (received[below], used_q[below], k[start:stop], v[start:stop])
            part = dense_gradient(*block_inputs, full=full, scaling=scaling)
            d_used_q[below] += part.query
            d_k[start:stop] += part.key
            d_v[start:stop] += part.value
        if predictors is not None:
            d_q[predictors.queries] += d_used_q
        return (*(x.transpose(0, 1)[None] for x in (d_q, d_k, d_v)), None)


def _descendants(attention: TreeAttention, predictors: _Predictors | None) -> list[tuple[_Chunk, slice]]:
    """Each parent with the range of its descendants' queries, of all or of the predictors; none are empty."""
    if predictors is None:
        return [(chunk, slice(chunk.stop, chunk.subtree_stop)) for chunk in attention.parents]
    pairs = zip(attention.parents, predictors.ranges, strict=True)
    return [(chunk, below) for chunk, below in pairs if below.start < below.stop]


def _gather(tensor: Tensor, block: _Block) -> Tensor:
    """``(B, heads, L, D)``: a block's part of ``(N, heads, D)``."""
    if block.indices is None:
        return heads_first(tensor[block.start : block.stop])
    return tensor[block.indices].transpose(1, 2)


def _scatter(target: Tensor, block: _Block, part: Tensor) -> None:
    """Writes ``(B, L, …)`` to a block's tokens in ``(N, …)``; padding is dropped."""
    if block.indices is None:
        target[block.start : block.stop] = part[0]
    elif block.is_real is None:
        target[block.indices] = part.to(target.dtype)
    else:
        target[block.indices[block.is_real]] = part[block.is_real].to(target.dtype)


def _join(output: Tensor, lse: Tensor, further: Attention) -> None:
    """Joins attention to further keys in place: ``(L, H, D)`` outputs with their ``(L, H)`` log-sum-exp."""
    joined = torch.logaddexp(lse, further.lse)
    output.mul_((lse - joined).exp_()[..., None]).addcmul_(
        further.output.to(output.dtype), (further.lse - joined).exp_()[..., None]
    )
    lse.copy_(joined)


def _by_node(query: Tensor, key: Tensor, value: Tensor, *, scaling: float, attention: TreeAttention) -> Tensor:
    tree, parts = attention.tree, []
    for start, stop, visible in zip(tree.starts.tolist(), tree.stops.tolist(), attention.visible, strict=True):
        length, width = stop - start, len(visible)
        is_root = length == width  # plain causal attention, which needs no mask
        mask = None
        if not is_root:
            mask = torch.ones(length, width, dtype=torch.bool, device=query.device).tril(width - length)
        parts.append(
            torch.nn.functional.scaled_dot_product_attention(
                query[:, :, start:stop],
                key[:, :, start:stop] if is_root else key.index_select(2, visible),
                value[:, :, start:stop] if is_root else value.index_select(2, visible),
                attn_mask=mask,
                is_causal=is_root,
                scale=scaling,
                enable_gqa=query.shape[1] != key.shape[1],
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2)


@cache
def _compiled() -> Callable[..., Any]:
    """Cached per process: compiling takes a minute."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True)


def _block_mask(tree: TokenTree, device: torch.device) -> object:
    """A key is visible to the queries at or after it, up to the end of its node's descendants.

    Computed by block of tokens, so its memory is that of one number per pair of blocks. FlexAttention's own
    ``create_block_mask`` evaluates every pair of tokens: 10.5 GB for 32,768 tokens.
    """
    reach = np.repeat(tree.subtree_stops, tree.stops - tree.starts)
    return _cached_block_mask(reach.tobytes(), str(reach.dtype), device)


@lru_cache(_CACHED_MASKS)
def _cached_block_mask(reach_bytes: bytes, dtype: str, device: torch.device) -> object:
    """The block mask of a layout, by the token after the last one that sees each key."""
    from torch.nn.attention.flex_attention import BlockMask

    reach_N = np.frombuffer(reach_bytes, dtype=dtype)
    on_device = torch.from_numpy(reach_N.copy()).to(device)

    def is_visible(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query < on_device[key])

    partial_BB, full_BB = visible_blocks(reach_N)
    return BlockMask.from_kv_blocks(
        *_block_lists(partial_BB, device),
        *_block_lists(full_BB, device),
        BLOCK_SIZE=BLOCK,
        mask_mod=is_visible,
        seq_lengths=(len(reach_N), len(reach_N)),
    )


def visible_blocks(reach_N: IntArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each pair of a query block and a key block: whether some of its pairs of tokens are visible, and whether
    all are; a pair of blocks is in at most one of the two.

    ``reach_N``: the token after the last one that sees each key, larger than the key. Key k is visible to the
    queries k ≤ q < reach[k].
    """
    count = len(reach_N)
    starts = np.arange(0, count, BLOCK)
    stops = starts + BLOCK
    furthest, nearest = np.maximum.reduceat(reach_N, starts), np.minimum.reduceat(reach_N, starts)
    queries, keys = np.ogrid[: len(starts), : len(starts)]
    is_earlier = keys < queries
    is_visible = (is_earlier & (furthest[keys] > starts[queries])) | (keys == queries)
    is_full = is_earlier & (nearest[keys] >= stops[queries])
    return is_visible & ~is_full, is_full


def _block_lists(blocks_BB: NDArray[np.bool_], device: torch.device) -> tuple[Tensor, Tensor]:
    """``(1, 1, B)``: the number of key blocks of each query block; ``(1, 1, B, B)``: those first, ascending."""
    counts_B = blocks_BB.sum(axis=1, dtype=np.int32)
    order_BB = np.argsort(~blocks_BB, axis=1, kind="stable").astype(np.int32)
    return torch.from_numpy(counts_B).to(device)[None, None], torch.from_numpy(order_BB).to(device)[None, None]


def _flex(query: Tensor, key: Tensor, value: Tensor, *, scaling: float, block_mask: object) -> Tensor:
    """Compiled on CUDA; elsewhere, for tests, the slow form that holds all scores."""
    from torch.nn.attention.flex_attention import flex_attention

    plain: Any = flex_attention
    call = _compiled() if query.device.type == "cuda" else plain
    is_grouped = query.shape[1] != key.shape[1]
    output: Tensor = call(
        query,
        key,
        value,
        block_mask=block_mask,
        scale=scaling,
        enable_gqa=is_grouped,
        kernel_options={"BACKEND": "TRITON"},  # else trees below 128 tokens get a kernel that fails for many shapes
    )
    return output.transpose(1, 2)
