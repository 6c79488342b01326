"""Entropy of the policy as a bonus in any objective."""

from torch import Tensor

from upturn.training.loss import Objective, TokenBatch, TokenStatistics, apply_mask, total


class WithEntropy:
    """An objective minus ``coefficient`` times the entropy of the policy's distribution at each token.

    The entropy is exact, over the whole vocabulary, and differentiated: H = −Σ p log p, with gradient −p (log p +
    H) in the logits (PPO, arXiv 1707.06347, eq. 9). It is that of the distributions at the sampled positions: how
    the bonus changes which positions are reached is left out, as in TRL and verl. Sampler corrections do not apply
    to it; the tokens' scales do.
    """

    def __init__(self, objective: Objective, coefficient: float) -> None:
        """``coefficient``: 0 = the entropy is only reported."""
        self.objective = objective
        self.coefficient = coefficient

    def losses(self, batch: TokenBatch) -> Tensor:
        """The objective's losses − coefficient · H. Needs ``entropies``."""
        return self.objective.losses(batch) - self.coefficient * _entropies(batch)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """The objective's statistics, and ``entropy_exact``."""
        inner = self.objective.statistics(batch)
        return inner._replace(sums={**inner.sums, "entropy_exact": total(_entropies(batch))})


def _entropies(batch: TokenBatch) -> Tensor:
    assert batch.entropies is not None
    return apply_mask(batch.entropies, batch.mask)
