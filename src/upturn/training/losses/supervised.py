"""Cross-entropy: supervised training on the written tokens."""

from torch import Tensor

from upturn.training.loss import TokenBatch, TokenStatistics, apply_mask, total


def cross_entropy_losses(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """−w·log π per token."""
    return -apply_mask(weights, mask) * apply_mask(logprobs, mask)


class CrossEntropy:
    """Supervised training on the written tokens."""

    def losses(self, batch: TokenBatch) -> Tensor:
        """−w·log π."""
        return cross_entropy_losses(batch.logprobs, batch.weights, batch.mask)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """``token_logprob``: mean log π of the written tokens."""
        return TokenStatistics({"token_logprob": total(apply_mask(batch.logprobs, batch.mask))}, {})
