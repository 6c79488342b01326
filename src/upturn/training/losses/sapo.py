"""SAPO: a sigmoid of the ratio in place of a clip, so that the gradient fades instead of stopping."""

import torch
from torch import Tensor

from upturn.training.loss import TokenBatch, TokenStatistics
from upturn.training.losses.ratio import Clipped, advantages, probability_ratios, ratio_statistics


class SoftGated:
    """−σ(τ(ρ − 1))·(4/τ)·A per token, with τ⁺ where A ≥ 0 and τ⁻ where A < 0 (SAPO, arXiv 2511.20347, eq. 5–7).

    At ρ = 1 its gradient is that of −ρA. The larger τ is, the sooner the gradient fades as ρ leaves 1.
    """

    def __init__(self, positive: float, negative: float) -> None:
        """``positive``: τ⁺; ``negative``: τ⁻."""
        self.positive = positive
        self.negative = negative

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``"""
        gains = advantages(batch)
        temperatures = torch.where(gains < 0, self.negative, self.positive).to(gains.dtype)
        gates = torch.sigmoid(temperatures * (probability_ratios(batch) - 1.0))
        return -gates * (4.0 / temperatures) * gains

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """See ``ratio_statistics``; nothing is clipped."""
        none = torch.zeros_like(batch.mask)
        return ratio_statistics(batch, probability_ratios(batch).detach(), Clipped(none, none))
