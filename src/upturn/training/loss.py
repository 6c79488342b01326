"""The contract of a loss: what an objective sees of the written tokens, and what it gives back.

The objectives themselves stand in ``upturn.training.losses``. All tensors of a call have the same shape, any shape;
in the trainer it is ``(N,)``, the written tokens. ``mask`` is True where a token takes part; elsewhere every
objective gives exactly 0, with gradient exactly 0, whatever stands there, NaN included.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class TokenBatch(NamedTuple):
    """The written tokens of a micro-batch, in the order of ``WrittenTokens``; all ``(N,)``."""

    logprobs: Tensor
    """Of the model in training; carries the gradient. A critic's batch has its values here."""
    old_logprobs: Tensor
    """Of the policy that ratios are taken to, as a rule the sampler's; NaN where none were recorded. A critic's
    batch has the values from before its first step here."""
    weights: Tensor
    """Advantage, or 1; for a critic the return that its value is fitted to."""
    mask: Tensor
    """True = takes part."""
    corrections: Tensor | None = None
    """What a policy term is multiplied by where sampler and trainer differ, without gradient; None = 1."""
    reference_logprobs: Tensor | None = None
    """Of the policy that a KL term or a preference holds on to; None = there is none."""
    sequences: Tensor | None = None
    """int64: index of the rollout of each token; None = all of one."""
    turns: Tensor | None = None
    """int64: index of the turn of each token, counted over all rollouts; None = all of one."""
    pairs: Tensor | None = None
    """int64: index of the comparison of each token, −1 = in none; None = there are no comparisons."""


class TokenStatistics(NamedTuple):
    """What an objective reports of a micro-batch, by metric name."""

    sums: Mapping[str, float]
    """Over the tokens that take part; reported as means."""
    maxima: Mapping[str, float]
    """Reported for the first minibatch of a unit only, where the weights still are the sampler's."""
    counted: float | None = None
    """Of what the means are, such as the number of pairs; None = of the written tokens."""


class Objective(Protocol):
    """What training minimises: a per-token loss."""

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``; the trainer multiplies them by the tokens' scales, adds them up and divides by the stream's own
        denominator."""

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """Plain numbers, without gradient."""


def quiet(values: Tensor, mask: Tensor) -> Tensor:
    """0 where masked out, before any arithmetic: NaN·0 is NaN, also in a gradient."""
    return torch.where(mask, values, 0.0)


def total(values: Tensor) -> float:
    """The sum as a plain number."""
    return float(values.detach().sum())
