"""CISPO: a clipped ratio as a constant factor, so that no token loses its gradient."""

from torch import Tensor

from upturn.training.loss import TokenBatch, TokenStatistics, apply_mask
from upturn.training.losses.ratio import Clipped, advantages, probability_ratios, ratio_statistics


class ClippedWeights:
    """−sg[clamp(ρ, 1 − clip_low, 1 + clip_high)]·A·log π per token (MiniMax-M1, arXiv 2506.13585, eq. 4–5).

    Both numbers are distances from 1, as for the other objectives (and in SkyRL and slime). For an absolute cap,
    such as TRL's ``epsilon_high`` = 5, use clip_high = cap − 1 and clip_low = 1 (no lower bound).
    """

    def __init__(self, clip_low: float, clip_high: float) -> None:
        self.clip_low = clip_low
        self.clip_high = clip_high

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``; the gradient is −clamp(ρ)·A·∇log π."""
        bounded = probability_ratios(batch).detach().clamp(1 - self.clip_low, 1 + self.clip_high)
        return -bounded * advantages(batch) * apply_mask(batch.logprobs, batch.mask)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """See ``ratio_statistics``; the clip fractions count tokens whose ratio a bound changes."""
        ratios = probability_ratios(batch).detach()
        is_low, is_high = ratios < 1 - self.clip_low, ratios > 1 + self.clip_high
        return ratio_statistics(batch, ratios, Clipped(is_low & batch.mask, is_high & batch.mask))
