"""The token-level clipped policy objective of PPO, GRPO and DAPO, and the second clip of dual-clip PPO."""

import torch
from torch import Tensor

from upturn.training.loss import TokenBatch, TokenStatistics
from upturn.training.losses.ratio import Clipped, advantages, probability_ratios, ratio_statistics


def clipped_policy_losses(
    batch: TokenBatch, *, clip_low: float, clip_high: float, dual_clip: float | None = None
) -> Tensor:
    """−min(ρA, clip(ρ, 1 − clip_low, 1 + clip_high)·A) per token, with ρ = π/π_old.

    PPO's clipped surrogate (arXiv 1707.06347, eq. 7) per token, with DAPO's two clips (arXiv 2503.14476, eq. 8).
    ``dual_clip`` c > 1 (arXiv 1912.09729) bounds the loss of A < 0 by −cA, and so the gradient of a bad token that
    became far likelier; None = no bound. Where a clip binds the gradient is 0.
    """
    ratios, gains = probability_ratios(batch), advantages(batch)
    losses = -torch.minimum(ratios * gains, ratios.clamp(1 - clip_low, 1 + clip_high) * gains)
    if dual_clip is None:
        return losses
    return torch.where(gains < 0, torch.minimum(losses, -dual_clip * gains), losses)


class ClippedPolicy:
    """The token-level clipped policy objective on the old policy's log-probs."""

    def __init__(self, clip_low: float, clip_high: float, dual_clip: float | None = None) -> None:
        """``dual_clip``: None = no bound."""
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.dual_clip = dual_clip

    def losses(self, batch: TokenBatch) -> Tensor:
        """See ``clipped_policy_losses``."""
        return clipped_policy_losses(
            batch, clip_low=self.clip_low, clip_high=self.clip_high, dual_clip=self.dual_clip
        )

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """See ``ratio_statistics``; the clip fractions count tokens whose gradient a clip removes.

        With a dual clip, ``clip_fraction_dual`` counts those that only it removes; ``clip_fraction`` counts all.
        """
        ratios, gains = probability_ratios(batch).detach(), advantages(batch)
        clipped = binding(ratios, gains, self.clip_low, self.clip_high)
        statistics = ratio_statistics(batch, ratios, clipped)
        if self.dual_clip is None:
            return statistics
        dual = float(((ratios > self.dual_clip) & (gains < 0)).sum())
        sums = {
            **statistics.sums,
            "clip_fraction": statistics.sums["clip_fraction"] + dual,
            "clip_fraction_dual": dual,
        }
        return statistics._replace(sums=sums)


def binding(ratios: Tensor, gains: Tensor, clip_low: float, clip_high: float) -> Clipped:
    """Where the clip removes the gradient: the ratio is beyond the clip in the advantage's direction."""
    return Clipped((ratios < 1 - clip_low) & (gains < 0), (ratios > 1 + clip_high) & (gains > 0))
