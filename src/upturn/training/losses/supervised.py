"""Cross-entropy: supervised training on the written tokens."""

from torch import Tensor

from upturn.training.loss import TokenBatch, TokenStatistics, quiet, total


def cross_entropy_losses(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """−w·log π per token."""
    return -quiet(weights, mask) * quiet(logprobs, mask)


class CrossEntropy:
    """Supervised training on the written tokens."""

    def losses(self, batch: TokenBatch) -> Tensor:
        """−w·log π."""
        return cross_entropy_losses(batch.logprobs, batch.weights, batch.mask)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """``token_logprob``: mean log π of the written tokens."""
        return TokenStatistics({"token_logprob": total(quiet(batch.logprobs, batch.mask))}, {})
