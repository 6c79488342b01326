"""Off-policy sequence masking: drops bad rollouts that have become too unlikely under the model."""

import torch
from torch import Tensor

from upturn.training.loss import Objective, TokenBatch, TokenStatistics, total
from upturn.training.losses.ratio import log_ratios, sequence_means


class OffPolicyMasked:
    """An objective without the tokens of A < 0 in sequences with mean(log π_old − log π) > ``limit``.

    DeepSeek-V3.2 (arXiv 2512.02556, section 3.1). The model learns from its own mistakes, not from those of an
    outdated policy. With one advantage per rollout this drops sequences; with an advantage per turn it drops the
    bad turns of such a sequence. A KL term around it is not affected.
    """

    def __init__(self, objective: Objective, limit: float) -> None:
        self.objective = objective
        self.limit = limit

    def losses(self, batch: TokenBatch) -> Tensor:
        """The objective's losses with advantage 0 where dropped."""
        return self.objective.losses(self._without_stale(batch))

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """The objective's statistics on the remaining tokens, and ``stale_fraction`` of tokens dropped."""
        inner = self.objective.statistics(self._without_stale(batch))
        return inner._replace(sums={**inner.sums, "stale_fraction": total(self._is_stale(batch))})

    def _is_stale(self, batch: TokenBatch) -> Tensor:
        gaps = -sequence_means(log_ratios(batch).detach(), batch)
        return batch.mask & (batch.weights < 0) & (gaps > self.limit)

    def _without_stale(self, batch: TokenBatch) -> TokenBatch:
        return batch._replace(weights=torch.where(self._is_stale(batch), 0.0, batch.weights))
