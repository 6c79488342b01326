"""VESPO: a whole rollout's ratio, weighed by a kernel that fades on both sides of 1."""

import math

import torch
from torch import Tensor

from upturn.training.loss import TokenBatch, TokenStatistics, apply_mask, total
from upturn.training.losses.ratio import Clipped, advantages, log_ratios, ratio_statistics, sequence_sums
from upturn.training.policy_settings import KernelSettings

_LARGEST = 20.0
"""Bound of |log ρ| of a token and of log W, as in the authors' code."""
_SMALLEST = math.log(1e-8)
"""Lower bound of log W, as in the authors' code."""


class KernelWeighted:
    """−sg[φ(W)]·A·log π per token, with W = Π ρ over the rollout's written tokens, φ(W) = W^k·e^{λ(1 − W)}.

    VESPO (arXiv 2602.10693), with the constants and bounds of the authors' code (github.com/FloyedShen/VESPO,
    ``recipe/vespo/code/core_algos.py``). k and λ are those of positive advantages where A ≥ 0, else of negative
    ones; with an advantage per turn, by token. φ(1) = 1, so on policy the gradient is that of −ρA. φ is largest at
    W = k/λ and fades to 0 for both W → 0 and W → ∞. W is not normalised by length.
    """

    def __init__(self, kernel: KernelSettings) -> None:
        self.kernel = kernel

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``; the gradient is −φ(W)·A·∇log π."""
        return -self._weights(batch) * advantages(batch) * apply_mask(batch.logprobs, batch.mask)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """See ``ratio_statistics``, with W as the ratio and nothing clipped; and ``kernel_weight``, φ(W)."""
        none = torch.zeros_like(batch.mask)
        statistics = ratio_statistics(batch, _log_products(batch).exp(), Clipped(none, none))
        weight = total(apply_mask(self._weights(batch), batch.mask))
        return statistics._replace(sums={**statistics.sums, "kernel_weight": weight})

    def _weights(self, batch: TokenBatch) -> Tensor:
        """φ(W) at each token, without gradient."""
        kernel, products = self.kernel, _log_products(batch)
        is_negative = apply_mask(batch.weights, batch.mask) < 0
        shapes = torch.where(is_negative, kernel.shape_negative, kernel.shape_positive).to(products.dtype)
        rates = torch.where(is_negative, kernel.rate_negative, kernel.rate_positive).to(products.dtype)
        return (shapes * products + rates * (1.0 - products.exp())).exp()


def _log_products(batch: TokenBatch) -> Tensor:
    """log W at each token, bounded, without gradient."""
    ratios = log_ratios(batch).detach().clamp(-_LARGEST, _LARGEST)
    return sequence_sums(ratios, batch).clamp(_SMALLEST, _LARGEST)
