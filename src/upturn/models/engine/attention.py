"""Attention in parts: over a slot's cached columns, over a prefix shared by several slots, and among new tokens.

Each part gives an output and the log-sum-exp of its scores, from which ``join`` computes attention over all
columns, as flash attention joins its blocks (arXiv 2205.14135). Letters: R rows of a store, A rows of a block that
read the same row, L new tokens of each, H query heads, K key-value heads, G = H / K, D head size, W columns.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats: TypeAlias = npt.NDArray[np.float32]

_FEW_QUERIES = 8
"""Queries per matrix up to which numpy is faster: OpenBLAS has kernels for small matrices; MKL, which torch uses,
has none."""
_SMALL = 1_000_000
"""Multiplications per matrix from which OpenBLAS no longer uses those kernels and starts its own threads."""
_SMALL_TRANSPOSED = 1_200
"""The same limit in entries of a product with a transposed matrix (``sgemm_small_kernel_permit``)."""
_FEW_THREADS = 2
"""Torch threads up to which numpy, with at most two, is faster."""
_FLASH: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_DEVICE_FLASH: Any = torch.ops.aten._scaled_dot_product_flash_attention


class Part(NamedTuple):
    """Attention of a block's queries to some of their columns."""

    output: Tensor
    """``(B, L, H, D)``"""
    lse: Tensor
    """``(B, L, H)``: log Σ exp(score); −∞ = the row attends to no column of this part."""


class Read(NamedTuple):
    """The columns of a store that the rows of a block attend to."""

    rows: slice | Tensor
    """R rows of the store."""
    columns: int
    """W"""
    readers: int
    """A"""
    gather: Tensor | None
    """``(R·A,)``: the block's row for each cell of the grid R × A, with repeats. None = A is 1, in order."""
    scatter: Tensor | None
    """``(B,)``: each row's cell in the grid; arbitrary for rows without one. None = in order."""
    mask: Tensor | None
    """``(R, 1, A, W)``, or with 1 or A·L for A: added to the scores, 0 = attended. None = nothing is masked. With
    1 or A, all new tokens of a row attend to the same columns."""
    bias: Tensor | None
    """``(B, 1, 1)``: −∞ for rows without a cell, else 0. None = all have one."""


def attend(
    query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, is_causal: bool = False
) -> Part:
    """Softmax attention with scale 1/√D. Queries ``(R, H, M, D)``; keys and values ``(R, K, W, D)``.

    The part's shapes are ``(R, H, M, D)`` and ``(R, H, M)``. ``mask``: added to the scores. ``is_causal``: M = W,
    and query m attends to columns 0 to m. Scores are in float32, whatever the type of the arguments.
    """
    if query.device.type == "cpu":
        mask = None if mask is None else mask.to(query.dtype)
        return Part(*_FLASH(query, key, value, 0.0, is_causal, attn_mask=mask))
    heads = query.shape[1] // key.shape[1]
    if heads > 1:
        key, value = key.repeat_interleave(heads, 1), value.repeat_interleave(heads, 1)
    if is_causal and query.device.type == "cuda" and query.dtype == torch.bfloat16:
        return Part(*_DEVICE_FLASH(query, key, value, 0.0, is_causal=True)[:2])
    query, key, value = query.float(), key.float(), value.float()
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores + mask
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    return Part(scores.softmax(-1) @ value, scores.logsumexp(-1))


def attend_small(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None) -> Part:
    """``attend`` in numpy, two to three times faster for many matrices of few queries."""
    queries, keys, values = query.numpy(), key.numpy(), value.numpy()
    columns, step = keys.shape[2], _SMALL_TRANSPOSED // queries.shape[2]
    scaled, transposed = queries * np.float32(queries.shape[-1] ** -0.5), keys.swapaxes(2, 3)
    scores = np.empty((*queries.shape[:3], columns), dtype=np.float32)
    for start in range(0, columns, step):
        stop = min(start + step, columns)
        np.matmul(scaled, transposed[..., start:stop], out=scores[..., start:stop])
    if mask is not None:
        scores += mask.numpy()
    highest = scores.max(axis=-1, keepdims=True)
    scores -= highest
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    output = np.matmul(scores, values)
    output /= total
    lse: Floats = (highest + np.log(total))[..., 0]
    return Part(torch.from_numpy(output), torch.from_numpy(lse))


def _is_small(query: Tensor, columns: int) -> bool:
    """Whether ``attend_small`` is faster than ``attend``. Queries ``(R, H, M, D)``."""
    _, _, count, size = query.shape
    return (
        count <= _FEW_QUERIES
        and count * columns * size <= _SMALL
        and torch.get_num_threads() <= _FEW_THREADS
        and query.device.type == "cpu"
        and query.dtype == torch.float32
    )


def attend_new(query: Tensor, key: Tensor, value: Tensor, *, window: int | None = None) -> Part:
    """Causal attention among the new tokens: ``(B, L, H, D)`` and twice ``(B, L, K, D)``.

    ``window``: each attends to that many, itself included; None = all earlier ones.
    """
    length = query.shape[1]
    mask = None
    if window is not None and window < length:
        is_visible = torch.ones((length, length), dtype=torch.bool, device=query.device).tril().triu(1 - window)
        mask = torch.where(is_visible, 0.0, -torch.inf)[None, None]
    heads_first = (tensor.transpose(1, 2) for tensor in (query, key, value))
    output, lse = attend(*heads_first, mask=mask, is_causal=mask is None)
    return Part(output.transpose(1, 2), lse.transpose(1, 2))


def attend_cached(query: Tensor, cached: tuple[Tensor, Tensor], read: Read) -> Part:
    """Over cached columns ``(R, K, W, D)``; queries ``(B, L, H, D)``.

    Queries that read the same keys form one matrix: A readers, L tokens and G heads.
    """
    key, value = cached
    count, groups, columns, _ = key.shape
    length, heads, size = query.shape[1:]
    grid = query if read.gather is None else query.index_select(0, read.gather)
    grid = grid.view(count, read.readers, length, groups, heads // groups, size)
    mask = read.mask
    if mask is not None and mask.shape[2] > 1:
        mask = mask.repeat_interleave(read.readers * length * (heads // groups) // mask.shape[2], dim=2)
    merged = grid.permute(0, 3, 1, 2, 4, 5).reshape(count, groups, -1, size)
    output, lse = (attend_small if _is_small(merged, columns) else attend)(merged, key, value, mask=mask)
    shape = (count, groups, read.readers, length, heads // groups)
    output = output.view(*shape, size).permute(0, 2, 3, 1, 4, 5).reshape(-1, length, heads, size)
    lse = lse.view(shape).permute(0, 2, 3, 1, 4).reshape(-1, length, heads)
    if read.scatter is not None:
        output, lse = output.index_select(0, read.scatter), lse.index_select(0, read.scatter)
    return Part(output, lse if read.bias is None else lse + read.bias)


def join(parts: list[Part]) -> Tensor:
    """``(B, L, H, D)``: attention over the columns of all parts, in float32 where there are several.

    The first part needs a column in every row.
    """
    output, lse = parts[0]
    for index, part in enumerate(parts[1:], start=2):
        output = torch.lerp(output.float(), part.output.float(), torch.sigmoid(part.lse - lse)[..., None])
        if index < len(parts):
            lse = torch.logaddexp(lse, part.lse)
    return output
