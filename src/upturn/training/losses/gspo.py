"""Group sequence policy optimisation: one ratio for a whole rollout, or for each of its turns."""

from typing import Literal

import torch
from torch import Tensor

from upturn.training.loss import TokenBatch, TokenStatistics
from upturn.training.losses.clipped import binding
from upturn.training.losses.ratio import advantages, log_ratios, ratio_statistics, sequence_means

Extent = Literal["rollout", "turn"]


def sequence_ratios(batch: TokenBatch, extent: Extent = "rollout") -> Tensor:
    """At each token, s = (Π ρ)^(1/length) over the written tokens of its rollout or turn, without gradient."""
    parts = batch if extent == "rollout" else batch._replace(sequences=batch.turns)
    return sequence_means(log_ratios(batch).detach(), parts).exp()


class SequencePolicy:
    """GSPO in its token form (arXiv 2507.18071, section 4.3): −min(s_t·A_t, clip(s_t, 1 − low, 1 + high)·A_t).

    s_t = sg[s]·π_t/sg[π_t] has the value of the sequence ratio s at every token and the gradient of its own token.
    With one advantage for all tokens of a rollout and the mean over its tokens, the gradient is exactly that of
    GSPO's −min(s·A, clip(s)·A); it is also defined for an advantage per turn. On policy (one step per batch) s is 1
    and the gradient is that of the token-level objective with the same aggregation. Clips are far narrower than for
    tokens, because s is a geometric mean over many of them.

    ``extent="turn"``: s is per turn, so each action is clipped as a whole, independently of the others. Turn-PPO
    (arXiv 2512.17008) clips by turn too, with the plain product; the geometric mean makes one clip suit turns of
    any length.
    """

    def __init__(self, clip_low: float, clip_high: float, *, extent: Extent = "rollout") -> None:
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.extent: Extent = extent

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``; meaningful as a mean over each sequence."""
        differences = log_ratios(batch)
        ratios = sequence_ratios(batch, self.extent) * (differences - differences.detach()).exp()
        gains = advantages(batch)
        return -torch.minimum(ratios * gains, ratios.clamp(1 - self.clip_low, 1 + self.clip_high) * gains)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """See ``ratio_statistics``; ratio and clip fractions are of the sequence ratio, counted in tokens."""
        ratios = sequence_ratios(batch, self.extent)
        clipped = binding(ratios, advantages(batch), self.clip_low, self.clip_high)
        return ratio_statistics(batch, ratios, clipped)
