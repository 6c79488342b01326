"""Losses as pure functions of log-probabilities: one number per token, summed over a given denominator.

All tensors of a call have the same shape, any shape; in the trainer it is ``(N,)``, the written tokens. ``mask`` is
True where a token takes part; elsewhere every function gives exactly 0, with gradient exactly 0, whatever stands
there, NaN included.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class TokenBatch(NamedTuple):
    """The written tokens of a micro-batch, in the order of ``WrittenTokens``; all ``(N,)``."""

    logprobs: Tensor
    """Of the model in training; carries the gradient."""
    old_logprobs: Tensor
    """The sampler's; NaN where none were recorded."""
    weights: Tensor
    """Advantage, or 1."""
    mask: Tensor
    """True = takes part."""
    corrections: Tensor | None = None
    """What a policy term is multiplied by where sampler and trainer differ, without gradient; None = 1."""
    reference_logprobs: Tensor | None = None
    """Of the policy that a KL term holds on to; None = there is none."""
    sequences: Tensor | None = None
    """int64: index of the rollout of each token; None = all of one."""


class TokenStatistics(NamedTuple):
    """What an objective reports of a micro-batch, by metric name."""

    sums: Mapping[str, float]
    """Over the tokens that take part; reported as means per token."""
    maxima: Mapping[str, float]
    """Reported for the first minibatch of a unit only, where the weights still are the sampler's."""


class Objective(Protocol):
    """What training minimises: a per-token loss."""

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``; the trainer multiplies them by the tokens' scales, adds them up and divides by the stream's own
        denominator."""

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """Plain numbers, without gradient."""


def cross_entropy_losses(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """−w·log π per token."""
    return -_quiet(weights, mask) * _quiet(logprobs, mask)


def clipped_policy_losses(batch: TokenBatch, *, clip_low: float, clip_high: float) -> Tensor:
    """−min(ρA, clip(ρ, 1 − clip_low, 1 + clip_high)·A) per token, with ρ = π/π_old.

    PPO's clipped surrogate (arXiv 1707.06347, eq. 7) per token, with DAPO's two clips (arXiv 2503.14476, eq. 8).
    Where the clip binds the gradient is 0.
    """
    advantages = _quiet(batch.weights, batch.mask)
    ratios = probability_ratios(batch)
    return -torch.minimum(ratios * advantages, ratios.clamp(1 - clip_low, 1 + clip_high) * advantages)


def probability_ratios(batch: TokenBatch) -> Tensor:
    """ρ = π/π_old per token; exactly 1 where the mask is False."""
    return (_quiet(batch.logprobs, batch.mask) - _quiet(batch.old_logprobs, batch.mask)).exp()


def kl_k3(batch: TokenBatch) -> Tensor:
    """ρ − log ρ − 1 per token: Schulman's k3 estimate of KL(sampler ‖ model), never negative."""
    log_ratios = _quiet(batch.logprobs, batch.mask) - _quiet(batch.old_logprobs, batch.mask)
    return log_ratios.exp() - log_ratios - 1


class CrossEntropy:
    """Supervised training on the written tokens."""

    def losses(self, batch: TokenBatch) -> Tensor:
        """−w·log π."""
        return cross_entropy_losses(batch.logprobs, batch.weights, batch.mask)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """``token_logprob``: mean log π of the written tokens."""
        return TokenStatistics({"token_logprob": _sum(_quiet(batch.logprobs, batch.mask))}, {})


class ClippedPolicy:
    """The token-level clipped policy objective on the sampler's recorded log-probs."""

    def __init__(self, clip_low: float, clip_high: float) -> None:
        self.clip_low = clip_low
        self.clip_high = clip_high

    def losses(self, batch: TokenBatch) -> Tensor:
        """See ``clipped_policy_losses``."""
        return clipped_policy_losses(batch, clip_low=self.clip_low, clip_high=self.clip_high)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """How far the model is from the sampler.

        ``clip_fraction`` (tokens whose gradient the clip removes), ``ratio``, ``kl_sampler`` (k3), ``entropy``
        (of the sampler: −log π_old of what it drew is an unbiased estimate) and the largest ``logprob_gap``.
        """
        ratios = probability_ratios(batch)
        advantages = _quiet(batch.weights, batch.mask)
        is_clipped = ((ratios > 1 + self.clip_high) & (advantages > 0)) | (
            (ratios < 1 - self.clip_low) & (advantages < 0)
        )
        old = _quiet(batch.old_logprobs, batch.mask)
        gaps = (_quiet(batch.logprobs.detach(), batch.mask) - old).abs()
        return TokenStatistics(
            {
                "clip_fraction": _sum(is_clipped),
                "ratio": _sum(torch.where(batch.mask, ratios, 0.0)),
                "kl_sampler": _sum(kl_k3(batch)),
                "entropy": _sum(-old),
            },
            {"logprob_gap": float(gaps.max()) if gaps.numel() else 0.0},
        )


def _quiet(values: Tensor, mask: Tensor) -> Tensor:
    """0 where masked out, before any arithmetic: NaN·0 is NaN, also in a gradient."""
    return torch.where(mask, values, 0.0)


def _sum(values: Tensor) -> float:
    return float(values.detach().sum())
