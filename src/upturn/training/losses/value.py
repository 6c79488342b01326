"""Losses of models with a scalar output per state: PPO's critic, and the success model of turns. Needs torch."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from upturn.training.loss import TokenBatch, TokenStatistics, apply_mask, total


class SquaredError:
    """½·(V − G)² per step, with G the target return.

    In a critic's batch, ``logprobs`` are the values V, ``old_logprobs`` those before the iteration's first step,
    and ``weights`` the returns G. With a ``clip`` c: ½·max((V − G)², (V_old + clamp(V − V_old, −c, c) − G)²), PPO's
    value clip (openai/baselines ``ppo2``; verl ``compute_value_loss``): a value that has moved more than c towards
    its return has no gradient.
    """

    def __init__(self, clip: float | None = None) -> None:
        """``clip``: None = no clip."""
        self.clip = clip

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``."""
        values, returns = apply_mask(batch.logprobs, batch.mask), apply_mask(batch.weights, batch.mask)
        plain = (values - returns).square()
        if self.clip is not None:
            old = apply_mask(batch.old_logprobs, batch.mask)
            clipped = old + (values - old).clamp(-self.clip, self.clip)
            plain = torch.maximum(plain, (clipped - returns).square())
        return plain / 2

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """``value_loss``: ½·(V − G)², whatever the loss clips; with a clip ``value_clip_fraction``."""
        values, returns = apply_mask(batch.logprobs, batch.mask).detach(), apply_mask(batch.weights, batch.mask)
        plain = (values - returns).square() / 2
        sums = {"value_loss": total(plain)}
        if self.clip is not None:
            moved = (values - apply_mask(batch.old_logprobs, batch.mask)).abs() > self.clip
            sums["value_clip_fraction"] = total((moved & (self.losses(batch).detach() > plain)).float())
        return TokenStatistics(sums, {})


class SuccessProbability:
    """Binary cross-entropy of σ(z) with a target y in [0, 1]: −y·log σ(z) − (1 − y)·log σ(−z).

    Math-Shepherd (arXiv 2312.08935, eq. 2), where a soft y is the share of continuations that succeeded. In its
    batch ``logprobs`` are the outputs z, one per turn, and ``weights`` the targets.
    """

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``."""
        logits, targets = apply_mask(batch.logprobs, batch.mask), apply_mask(batch.weights, batch.mask)
        return apply_mask(softplus(logits) - targets * logits, batch.mask)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """``turn_loss``, the mean loss, and ``turn_brier``, the mean of (σ(z) − y)²."""
        logits, targets = apply_mask(batch.logprobs, batch.mask).detach(), apply_mask(batch.weights, batch.mask)
        brier = apply_mask((torch.sigmoid(logits) - targets).square(), batch.mask)
        losses = self.losses(batch._replace(logprobs=batch.logprobs.detach()))
        return TokenStatistics({"turn_loss": total(losses), "turn_brier": total(brier)}, {})
