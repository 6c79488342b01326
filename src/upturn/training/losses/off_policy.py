"""Off-policy sequence masking: bad rollouts that the model has moved away from are left alone."""

import torch
from torch import Tensor

from upturn.training.loss import Objective, TokenBatch, TokenStatistics, total
from upturn.training.losses.ratio import log_ratios, sequence_means


class OffPolicyMasked:
    """An objective without the tokens of A < 0 in sequences with mean(log π_old − log π) > ``limit``.

    DeepSeek-V3.2 (arXiv 2512.02556, section 3.1). The model may learn from its own mistakes, not from those of a
    policy that it no longer is. With one advantage for a whole rollout this drops sequences; with an advantage for
    each turn it drops the bad turns of such a sequence. A KL term is not touched when it stands outside.
    """

    def __init__(self, objective: Objective, limit: float) -> None:
        self.objective = objective
        self.limit = limit

    def losses(self, batch: TokenBatch) -> Tensor:
        """Those of the objective with advantage 0 where dropped."""
        return self.objective.losses(self._kept(batch))

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """Those of the objective for what is left, and ``stale_fraction`` of tokens dropped."""
        inner = self.objective.statistics(self._kept(batch))
        return inner._replace(sums={**inner.sums, "stale_fraction": total(self._is_stale(batch))})

    def _is_stale(self, batch: TokenBatch) -> Tensor:
        gaps = -sequence_means(log_ratios(batch).detach(), batch)
        return batch.mask & (batch.weights < 0) & (gaps > self.limit)

    def _kept(self, batch: TokenBatch) -> TokenBatch:
        return batch._replace(weights=torch.where(self._is_stale(batch), 0.0, batch.weights))
