"""Tree attention by flash attention's kernels for rows of different length: CUDA, bfloat16 or float16.

One call computes every node's own causal attention. Then one call for each depth of the tree lets all descendants
of the nodes at that depth attend to those nodes. The parts are joined by their log-sum-exp, and the backward pass
of a part needs only the joined output and log-sum-exp, as for ``streamed``. Letters: see ``tree_backends``; B
sequences of one call, n of the N tokens.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from upturn.training.optimisation.tree import TokenTree
from upturn.training.row import IntArray

FLASH: Any = torch.ops.aten._flash_attention_forward
FLASH_GRADIENT: Any = torch.ops.aten._flash_attention_backward


class Level(NamedTuple):
    """The sequences of one call."""

    queries: slice | Tensor
    """Their tokens among the N, sequence after sequence."""
    keys: slice | Tensor
    query_ends: Tensor
    """``(B + 1,)`` int32: where the sequences end among the queries, from 0."""
    key_ends: Tensor
    longest_query: int
    longest_key: int
    is_causal: bool


def levels(tree: TokenTree, device: torch.device) -> tuple[Level, ...]:
    """The calls for a tree: first all nodes' own attention, then by depth."""
    depths = np.zeros(len(tree.parents), dtype=np.int64)
    for node, parent in enumerate(tree.parents.tolist()):  # parents come before their children
        if parent >= 0:
            depths[node] = depths[parent] + 1
    has_children = tree.subtree_stops > tree.stops
    calls = [_level(tree.starts, tree.stops, tree.starts, tree.stops, device=device, is_causal=True)]
    for depth in range(int(depths.max()) + 1):
        at = np.flatnonzero(has_children & (depths == depth))
        if len(at):
            below, stops = tree.stops[at], tree.subtree_stops[at]
            calls.append(_level(below, stops, tree.starts[at], below, device=device, is_causal=False))
    return tuple(calls)


def _level(  # two ranges
    query_starts: IntArray,
    query_stops: IntArray,
    key_starts: IntArray,
    key_stops: IntArray,
    *,
    device: torch.device,
    is_causal: bool,
) -> Level:
    def ends(starts: IntArray, stops: IntArray) -> Tensor:
        return torch.from_numpy(np.cumsum([0, *(stops - starts)], dtype=np.int32)).to(device)

    return Level(
        _tokens(query_starts, query_stops, device),
        _tokens(key_starts, key_stops, device),
        ends(query_starts, query_stops),
        ends(key_starts, key_stops),
        int((query_stops - query_starts).max()),
        int((key_stops - key_starts).max()),
        is_causal,
    )


def _tokens(starts: IntArray, stops: IntArray, device: torch.device) -> slice | Tensor:
    """The tokens of ascending ranges; a slice, which copies nothing, where they are adjacent."""
    if (starts[1:] == stops[:-1]).all():
        return slice(int(starts[0]), int(stops[-1]))
    tokens = np.concatenate([np.arange(start, stop) for start, stop in zip(starts, stops, strict=True)])
    return torch.from_numpy(tokens).to(device)


def attend_by_level(query: Tensor, key: Tensor, value: Tensor, *, calls: Sequence[Level], scaling: float) -> Tensor:
    """``(N, H, D)`` from queries ``(N, H, D)`` and keys and values ``(N, K, D)``, with gradient."""
    apply: Callable[..., Tensor] = _FlashTree.apply  # untyped in torch
    return apply(query, key, value, calls, scaling)


class _FlashTree(torch.autograd.Function):
    """See ``attend_by_level``."""

    @staticmethod
    def forward(  # noqa: PLR0917  # autograd passes arguments by position
        ctx: Any,  # autograd's context is open-ended
        query: Tensor,
        key: Tensor,
        value: Tensor,
        calls: Sequence[Level],
        scaling: float,
    ) -> Tensor:
        output, lse = _attend((query, key, value), calls[0], scaling)
        if len(calls) > 1:
            output = output.float()
        for level in calls[1:]:
            further, further_lse = _attend((query, key, value), level, scaling)
            before = lse[:, level.queries]
            share = torch.sigmoid(further_lse - before).T[..., None]
            output[level.queries] = torch.lerp(output[level.queries], further.float(), share)
            lse[:, level.queries] = torch.logaddexp(before, further_lse)
        result = output.to(query.dtype)
        ctx.save_for_backward(query, key, value, result, lse)
        ctx.calls, ctx.scaling = calls, scaling
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, lse = ctx.saved_tensors
        above = gradients[0].to(query.dtype).contiguous()
        state, unused = (torch.zeros(2, dtype=torch.uint64, device=above.device), above.new_empty(0))
        totals: list[Tensor] = []
        for level in ctx.calls:
            parts = FLASH_GRADIENT(
                above[level.queries],
                query[level.queries],
                key[level.keys],
                value[level.keys],
                output[level.queries],
                lse[:, level.queries].contiguous(),
                level.query_ends,
                level.key_ends,
                level.longest_query,
                level.longest_key,
                0.0,
                level.is_causal,
                state,
                unused,
                scale=ctx.scaling,
            )
            if not totals:  # the first call has all tokens
                totals = list(parts)
                continue
            for total, part, tokens in zip(totals, parts, (level.queries, level.keys, level.keys), strict=True):
                total[tokens] += part
        return (*totals, None, None)


def _attend(inputs: tuple[Tensor, Tensor, Tensor], level: Level, scaling: float) -> tuple[Tensor, Tensor]:
    """Output ``(n, H, D)`` and log-sum-exp ``(H, n)`` of one call."""
    query, key, value = inputs
    output, lse, *_ = FLASH(
        query[level.queries],
        key[level.keys],
        value[level.keys],
        level.query_ends,
        level.key_ends,
        level.longest_query,
        level.longest_key,
        0.0,
        level.is_causal,
        False,
        scale=scaling,
    )
    return output, lse
