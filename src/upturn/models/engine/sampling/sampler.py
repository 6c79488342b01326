"""Samples tokens for a batch, with a temperature and a uniform number per row; options by row, see ``reshape``."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from upturn.models.engine.sampling.reshape import ReshapedRows, on_device

_CHUNK = 64
"""Tokens per partial sum: the cumulative sum over chunks is then short enough for float64, and only one chunk is
searched token by token."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LOW_BITS = (1 << 64) - 1


class Sampled(NamedTuple):
    """One token a row, on the logits' device; each ``(B,)``."""

    ids: Tensor
    logprobs: Tensor
    """log p of each token at temperature 1, whatever the sampling temperature and options."""
    sampling_logprobs: Tensor | None
    """log p of each token in the distribution that it was drawn from (not defined for greedy rows); None = every
    row was greedy, or drawn from the distribution of ``logprobs``."""
    is_finite: Tensor
    """False for logits that are NaN, or whose highest is infinite: the row's token means nothing."""


def stream_of(seed: int) -> np.uint64:
    """The initial state of a request's random stream."""
    return np.uint64(_mix(np.array([seed & _LOW_BITS], dtype=np.uint64))[0])


def uniforms(streams_B: npt.NDArray[np.uint64], indices_B: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Random number ``index`` of each stream, in [0, 1), 53 bits: SplitMix64 (Steele, Lea, Flood; OOPSLA 2014)."""
    states = streams_B + (indices_B.astype(np.uint64) + np.uint64(1)) * _GOLDEN
    return (_mix(states) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sample(
    logits_BV: Tensor,
    temperatures_B: npt.NDArray[np.float64],
    uniforms_B: npt.NDArray[np.float64],
    *,
    reshaped: ReshapedRows | None = None,
) -> Sampled:
    """Inverse-CDF sampling of each row at its uniform number in [0, 1); temperature 0 takes the maximum.

    ``reshaped``: the rows with options; the others follow their temperature. A row's token depends on that row
    alone. Sums over the vocabulary are in float64, so a token of probability p is drawn with probability p to about
    1e-6 of it, whatever the vocabulary's size. Never waits for the device.
    """
    logits_BV = logits_BV.float()
    probabilities_BV = torch.softmax(logits_BV, dim=-1)
    highest_B1 = logits_BV.amax(dim=-1, keepdim=True)
    is_greedy_B = temperatures_B == 0.0
    drawn_BV, best_BV = probabilities_BV, logits_BV
    is_tempered = bool((temperatures_B[~is_greedy_B] != 1.0).any())
    if not is_greedy_B.all():
        if is_tempered:
            divisors_B = np.where(is_greedy_B, 1.0, temperatures_B)
            drawn_BV = torch.softmax(logits_BV / on_device(divisors_B, logits_BV.device).float()[:, None], dim=-1)
        if reshaped is not None:
            drawn_BV = drawn_BV.index_copy(0, reshaped.rows, torch.softmax(reshaped.logits, dim=-1))
        ids_B = _invert_cdf(drawn_BV, on_device(uniforms_B, logits_BV.device)[:, None])
    if is_greedy_B.any():
        if reshaped is not None:
            best_BV = best_BV.index_copy(0, reshaped.rows, reshaped.logits)
        likeliest_B = best_BV.argmax(dim=-1)
        is_all = is_greedy_B.all()
        ids_B = likeliest_B if is_all else torch.where(on_device(is_greedy_B, ids_B.device), likeliest_B, ids_B)
    # The highest token's probability is 1 / Σ exp(logit − highest), so its logarithm gives the sum's.
    chosen_B1 = logits_BV.gather(1, ids_B[:, None]) - highest_B1 + probabilities_BV.amax(dim=-1, keepdim=True).log()
    sampling_B = None
    if is_tempered or (reshaped is not None and not is_greedy_B.all()):
        sampling_B = drawn_BV.gather(1, ids_B[:, None])[:, 0].log()
    return Sampled(ids_B, chosen_B1[:, 0], sampling_B, highest_B1[:, 0].isfinite())


def _invert_cdf(probabilities_BV: Tensor, uniforms_B1: Tensor) -> Tensor:
    """Inverse CDF in two searches: for the chunk of the number, then within it.

    The bounds on the results only matter for NaN, which would otherwise give an index outside of the vocabulary.
    """
    count, vocabulary = probabilities_BV.shape
    whole = vocabulary - vocabulary % _CHUNK
    sums_BK = probabilities_BV[:, :whole].view(count, -1, _CHUNK).sum(dim=-1)
    if whole < vocabulary:
        sums_BK = torch.cat([sums_BK, probabilities_BV[:, whole:].sum(dim=-1, keepdim=True)], dim=1)
    reached_BK = sums_BK.cumsum(dim=-1, dtype=torch.float64)
    target_B1 = uniforms_B1 * reached_BK[:, -1:]
    chunk_B1 = _first_above(reached_BK, target_B1).clamp_(max=reached_BK.shape[1] - 1)
    before_B1 = functional.pad(reached_BK, (1, 0)).gather(1, chunk_B1)
    tokens_BC = chunk_B1 * _CHUNK + torch.arange(_CHUNK, device=probabilities_BV.device)
    within_BC = probabilities_BV.gather(1, tokens_BC.clamp(max=vocabulary - 1)).double()
    within_BC = within_BC.masked_fill_(tokens_BC >= vocabulary, 0.0).cumsum(dim=-1)
    found_B1 = chunk_B1 * _CHUNK + _first_above(within_BC, target_B1 - before_B1)
    return found_B1.clamp_(max=vocabulary - 1)[:, 0]


def _first_above(cumulative: Tensor, target_B1: Tensor) -> Tensor:
    """``(B, 1)``: index of the first entry above the target.

    It has positive mass, even where rounding puts the target at or above the total.
    """
    total_B1 = cumulative[:, -1:]
    below_B1 = torch.minimum(target_B1, torch.nextafter(total_B1, torch.zeros_like(total_B1)))
    return torch.searchsorted(cumulative, below_B1, right=True)


def _mix(states: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser."""
    states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return states ^ (states >> np.uint64(31))
