"""Samples tokens for a batch, with a temperature and a uniform number per row."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from upturn.errors import ModelError

_CHUNK = 64
"""Tokens per partial sum: the cumulative sum over chunks is then short enough for float64, and only one chunk is
searched token by token."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LOW_BITS = (1 << 64) - 1


class Sampled(NamedTuple):
    """One token a row; shape (B,)."""

    ids: npt.NDArray[np.int64]
    logprobs: npt.NDArray[np.float32]
    """log p of each token at temperature 1, whatever the sampling temperature."""


def stream_of(seed: int) -> np.uint64:
    """The initial state of a request's random stream."""
    return np.uint64(_mix(np.array([seed & _LOW_BITS], dtype=np.uint64))[0])


def uniforms(streams_B: npt.NDArray[np.uint64], indices_B: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Random number ``index`` of each stream, in [0, 1), 53 bits: SplitMix64 (Steele, Lea, Flood; OOPSLA 2014)."""
    states = streams_B + (indices_B.astype(np.uint64) + np.uint64(1)) * _GOLDEN
    return (_mix(states) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sample(
    logits_BV: Tensor, temperatures_B: npt.NDArray[np.float64], uniforms_B: npt.NDArray[np.float64]
) -> Sampled:
    """Inverse-CDF sampling of each row at its uniform number in [0, 1); temperature 0 takes the maximum.

    A row's token depends on that row alone. Sums over the vocabulary are in float64, so a token of probability p is
    drawn with probability p to about 1e-6 of it, whatever the vocabulary's size. Raises ModelError for logits that
    are NaN, and for rows whose highest is infinite.
    """
    logits_BV = logits_BV.float()
    probabilities_BV = torch.softmax(logits_BV, dim=-1)
    highest_B1 = logits_BV.amax(dim=-1, keepdim=True)
    if not bool(highest_B1.isfinite().all()):
        raise ModelError("the model's logits are not finite; its weights are damaged, or training diverged")
    is_greedy_B = temperatures_B == 0.0
    if is_greedy_B.all():
        ids_B = logits_BV.argmax(dim=-1)
    else:
        drawn_BV = probabilities_BV
        if (temperatures_B != 1.0).any():
            divisors_B = np.where(is_greedy_B, 1.0, temperatures_B)
            drawn_BV = torch.softmax(logits_BV / _to_device(divisors_B, logits_BV).float()[:, None], dim=-1)
        ids_B = _invert_cdf(drawn_BV, _to_device(uniforms_B, logits_BV)[:, None])
        if is_greedy_B.any():
            ids_B = torch.where(_to_device(is_greedy_B, logits_BV), logits_BV.argmax(dim=-1), ids_B)
    # The highest token's probability is 1 / Σ exp(logit − highest), so its logarithm gives the sum's.
    chosen_B1 = logits_BV.gather(1, ids_B[:, None]) - highest_B1 + probabilities_BV.amax(dim=-1, keepdim=True).log()
    return Sampled(ids_B.cpu().numpy(), chosen_B1[:, 0].cpu().numpy())


def _invert_cdf(probabilities_BV: Tensor, uniforms_B1: Tensor) -> Tensor:
    """Inverse CDF in two searches: for the chunk of the number, then within it."""
    count, vocabulary = probabilities_BV.shape
    whole = vocabulary - vocabulary % _CHUNK
    sums_BK = probabilities_BV[:, :whole].view(count, -1, _CHUNK).sum(dim=-1)
    if whole < vocabulary:
        sums_BK = torch.cat([sums_BK, probabilities_BV[:, whole:].sum(dim=-1, keepdim=True)], dim=1)
    reached_BK = sums_BK.cumsum(dim=-1, dtype=torch.float64)
    target_B1 = uniforms_B1 * reached_BK[:, -1:]
    chunk_B1 = _first_above(reached_BK, target_B1)
    before_B1 = functional.pad(reached_BK, (1, 0)).gather(1, chunk_B1)
    tokens_BC = chunk_B1 * _CHUNK + torch.arange(_CHUNK, device=probabilities_BV.device)
    within_BC = probabilities_BV.gather(1, tokens_BC.clamp(max=vocabulary - 1)).double()
    within_BC = within_BC.masked_fill_(tokens_BC >= vocabulary, 0.0).cumsum(dim=-1)
    return (chunk_B1 * _CHUNK + _first_above(within_BC, target_B1 - before_B1))[:, 0]


def _first_above(cumulative: Tensor, target_B1: Tensor) -> Tensor:
    """``(B, 1)``: index of the first entry above the target.

    It has positive mass, even where rounding puts the target at or above the total.
    """
    total_B1 = cumulative[:, -1:]
    below_B1 = torch.minimum(target_B1, torch.nextafter(total_B1, torch.zeros_like(total_B1)))
    return torch.searchsorted(cumulative, below_B1, right=True)


def _to_device(array: npt.NDArray[np.float64] | npt.NDArray[np.bool_], tensor: Tensor) -> Tensor:
    return torch.from_numpy(array).to(tensor.device)


def _mix(states: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser."""
    states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return states ^ (states >> np.uint64(31))
