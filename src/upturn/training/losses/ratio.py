"""The probability ratio ρ = π/π_old of written tokens, per token and per sequence, and its statistics."""

from typing import NamedTuple

import torch
from torch import Tensor

from upturn.training.loss import TokenBatch, TokenStatistics, apply_mask
from upturn.training.losses.kl import k3


def log_ratios(batch: TokenBatch) -> Tensor:
    """log ρ = log π − log π_old per token; exactly 0 where the mask is False."""
    return apply_mask(batch.logprobs, batch.mask) - apply_mask(batch.old_logprobs, batch.mask)


def probability_ratios(batch: TokenBatch) -> Tensor:
    """ρ = π/π_old per token; exactly 1 where the mask is False."""
    return log_ratios(batch).exp()


def advantages(batch: TokenBatch) -> Tensor:
    """The tokens' weights times their corrections; 0 where the mask is False.

    Every policy term here is proportional to the advantage with a non-negative factor, so correcting the advantage
    corrects the term.
    """
    weights = apply_mask(batch.weights, batch.mask)
    return weights if batch.corrections is None else weights * apply_mask(batch.corrections, batch.mask)


def sequence_means(values: Tensor, batch: TokenBatch) -> Tensor:
    """At each token, the mean of ``values`` over the unmasked tokens of its sequence (0 if there are none)."""
    sums, sizes, sequences = _by_sequence(values, batch)
    return (sums / sizes.clamp(min=1))[sequences].view_as(values)


def sequence_sums(values: Tensor, batch: TokenBatch) -> Tensor:
    """At each token, the sum of ``values`` over the unmasked tokens of its sequence."""
    sums, _, sequences = _by_sequence(values, batch)
    return sums[sequences].view_as(values)


def _by_sequence(values: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over unmasked tokens and their numbers, by sequence; and each token's sequence."""
    mask = batch.mask.flatten()
    if batch.sequences is None:
        sequences = torch.zeros(mask.shape, dtype=torch.int64, device=mask.device)
    else:
        sequences = batch.sequences.flatten()
    count = int(sequences.max()) + 1 if sequences.numel() else 0
    sums = values.new_zeros(count).index_add(0, sequences, apply_mask(values.flatten(), mask))
    sizes = values.new_zeros(count).index_add(0, sequences, mask.to(values.dtype))
    return sums, sizes, sequences


class Clipped(NamedTuple):
    """Where a clip binds, by token."""

    low: Tensor
    high: Tensor


def ratio_statistics(batch: TokenBatch, ratios: Tensor, clipped: Clipped) -> TokenStatistics:
    """Statistics of the distance between the model and the old policy.

    ``clip_fraction`` and its parts ``_low`` and ``_high``; ``ratio`` (the one that the objective clips) and
    ``ratio_squared``, for the effective sample size: mean² / mean of squares; ``kl_sampler`` (k3); ``entropy`` (of
    the sampler: −log π_old of its tokens is an unbiased estimate); the largest ``logprob_gap``.
    """
    differences = log_ratios(batch).detach()
    valid_ratios = torch.where(batch.mask, ratios.detach(), 0.0)
    columns = {
        "clip_fraction_low": clipped.low,
        "clip_fraction_high": clipped.high,
        "ratio": valid_ratios,
        "ratio_squared": valid_ratios.square(),
        "kl_sampler": k3(differences, differences.exp()),
        "entropy": -apply_mask(batch.old_logprobs, batch.mask),
    }
    gap = differences.abs().max() if differences.numel() else torch.zeros_like(differences.sum())
    # one device synchronisation instead of seven
    *sums, gap = torch.stack([*(column.to(differences.dtype).sum() for column in columns.values()), gap]).tolist()
    named = dict(zip(columns, sums, strict=True))
    clip_fraction = named["clip_fraction_low"] + named["clip_fraction_high"]
    return TokenStatistics({"clip_fraction": clip_fraction, **named}, {"logprob_gap": gap})
