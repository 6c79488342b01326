"""The options of sampling as operations on logits, for rows with different options.

Each operation equals the logits processor of ``transformers`` (``generation/logits_process.py``) with the same
parameter, in the same order: logit bias, repetition penalty, temperature, top-k, top-p, min-p. A row's result
depends on that row alone. Letters: R rows, V vocabulary.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from upturn.config import SamplingSettings


class ReshapedRows(NamedTuple):
    """Rows of a batch with the logits that their tokens are drawn from."""

    rows: Tensor
    """``(R,)``: their indices in the batch."""
    logits: Tensor
    """``(R, V)``, after the temperature; −inf = cannot be drawn."""


def reshape(
    logits: Tensor,
    options: Sequence[SamplingSettings],
    temperatures: Sequence[float],
    *,
    seen: Tensor | None = None,
    allowed: Tensor | None = None,
) -> Tensor:
    """``(R, V)``: new logits whose softmax is the distribution to sample from.

    ``temperatures``: 0 counts as 1, since a temperature does not change which token is the likeliest. ``seen``:
    ``(R, V)``, True for tokens in the context; for a repetition penalty. ``allowed``: ``(R, V)``, True for tokens
    that a grammar allows; applied first, as in vLLM; None = all.
    """
    logits = logits.float()
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    logits = _add_bias(logits, options)
    penalties_R1 = _column([option.repetition_penalty for option in options], logits)
    if seen is not None and any(option.repetition_penalty != 1.0 for option in options):
        logits = torch.where(seen, torch.where(logits < 0, logits * penalties_R1, logits / penalties_R1), logits)
    logits = logits / _column([temperature or 1.0 for temperature in temperatures], logits)
    logits = _keep_top_k(logits, [option.top_k for option in options])
    logits = _keep_top_p(logits, [option.top_p for option in options])
    return _keep_min_p(logits, [option.min_p for option in options])


def _add_bias(logits: Tensor, options: Sequence[SamplingSettings]) -> Tensor:
    entries = [
        (row, token, bias) for row, option in enumerate(options) for token, bias in option.logit_bias.items()
    ]
    if not entries:
        return logits
    rows, tokens, biases = zip(*entries, strict=True)
    index = tuple(on_device(np.array(part), logits.device) for part in (rows, tokens))
    return logits.index_put(index, on_device(np.array(biases, dtype=np.float32), logits.device), accumulate=True)


def _keep_top_k(logits: Tensor, counts: Sequence[int]) -> Tensor:
    """Removes the tokens below the k-th highest logit; ties with it stay. 0 = keeps all."""
    most = min(max(counts), logits.shape[1])
    if most == 0:
        return logits
    ranks_R1 = on_device(np.array([min(max(count, 1), most) - 1 for count in counts])[:, None], logits.device)
    lowest_R1 = logits.topk(most).values.gather(1, ranks_R1)
    is_limited_R1 = on_device(np.array([count > 0 for count in counts])[:, None], logits.device)
    return logits.masked_fill(is_limited_R1 & (logits < lowest_R1), -torch.inf)


def _keep_top_p(logits: Tensor, masses: Sequence[float]) -> Tensor:
    """Removes the least likely tokens of total probability at most 1 − p; never the likeliest token."""
    if all(mass == 1.0 for mass in masses):
        return logits
    ascending, order = logits.sort(dim=-1, stable=True)
    limits_R1 = _column([1.0 - mass if mass < 1.0 else -1.0 for mass in masses], logits)
    is_removed = ascending.softmax(dim=-1).cumsum(dim=-1) <= limits_R1
    is_removed[:, -1] = False
    return logits.masked_fill(is_removed.scatter(1, order, is_removed), -torch.inf)


def _keep_min_p(logits: Tensor, shares: Sequence[float]) -> Tensor:
    """Removes tokens less likely than this share of the likeliest token's probability."""
    if not any(shares):
        return logits
    probabilities = logits.softmax(dim=-1)
    limits_R1 = _column(shares, logits) * probabilities.amax(dim=-1, keepdim=True)
    return logits.masked_fill(probabilities < limits_R1, -torch.inf)


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    """``(R, 1)``"""
    return on_device(np.array(values, dtype=np.float32)[:, None], like.device)


def on_device(array: "np.typing.NDArray[np.generic]", device: torch.device) -> Tensor:
    """The array as a tensor on the device, without waiting for the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)
