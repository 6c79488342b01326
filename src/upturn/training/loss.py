"""The contract of a loss: the inputs of an objective per written token, and its outputs.

The objectives are in ``upturn.training.losses``. All tensors of a call have the same shape, any shape; in the
trainer it is ``(N,)``, the written tokens. ``mask`` is True for valid tokens; for others every objective returns
exactly 0, with gradient exactly 0, whatever the inputs, NaN included."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class TokenBatch(NamedTuple):
    """The written tokens of a micro-batch, in the order of ``WrittenTokens``; all ``(N,)``."""

    logprobs: Tensor
    """Of the trained model; carries the gradient. A critic's batch has its values here."""
    old_logprobs: Tensor
    """Of the policy in the denominator of ratios, usually the sampler; NaN = not recorded. A critic's batch has the
    values before its first step here."""
    weights: Tensor
    """Advantage, or 1; for a critic the target return."""
    mask: Tensor
    """True = valid."""
    corrections: Tensor | None = None
    """Factors of the policy term that correct for a sampler different from the trainer, without gradient; None =
    1."""
    reference_logprobs: Tensor | None = None
    """Of the reference policy of a KL term or a preference; None = no reference."""
    sequences: Tensor | None = None
    """int64: index of the rollout of each token; None = one rollout."""
    turns: Tensor | None = None
    """int64: index of the turn of each token, counted over all rollouts; None = one turn."""
    pairs: Tensor | None = None
    """int64: index of the pair of each token, −1 = in none; None = no pairs."""
    entropies: Tensor | None = None
    """Of the trained model's distribution where it predicted the token, in nats; carries the gradient. None = the
    stream has no ``has_entropies``."""
    divergences: Tensor | None = None
    """KL(π ‖ π_teacher) over the whole vocabulary before each token, with gradient; None = the trainer has no
    teacher."""


class TokenStatistics(NamedTuple):
    """The statistics of an objective on a micro-batch, by metric name."""

    sums: Mapping[str, float]
    """Over the valid tokens; reported as means."""
    maxima: Mapping[str, float]
    """Reported for the first minibatch of a unit only, where the weights still are the sampler's."""
    counted: float | None = None
    """Divisor of the means, such as the number of pairs; None = the number of written tokens."""


class Objective(Protocol):
    """A per-token loss to minimise."""

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``; the trainer multiplies them by the tokens' scales, adds them up and divides by the stream's
        denominator."""

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """Plain numbers, without gradient."""


def apply_mask(values: Tensor, mask: Tensor) -> Tensor:
    """Returns the values with 0 where the mask is False; to be used before any arithmetic, since NaN·0 is NaN, also
    in a gradient."""
    return torch.where(mask, values, 0.0)


def total(values: Tensor) -> float:
    """Returns the sum as a plain number."""
    return float(values.detach().sum())
