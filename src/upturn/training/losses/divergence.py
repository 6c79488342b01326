"""Estimates of KL divergence from single tokens, and KL to a reference policy as a term of any objective.

Schulman's estimators ("Approximating KL divergence", 2020) of KL(π ‖ π_ref) from a token drawn from π, with
Δ = log π_ref − log π. Their values and gradients differ in bias. On tokens drawn from π itself:

- k1 = −Δ has the right mean, but the mean of its gradient is 0, so as a loss it does nothing;
- k2 = Δ²/2 has a biased value; the mean of its gradient is that of KL(π ‖ π_ref);
- k3 = e^Δ − Δ − 1 has the right mean and is never negative; the mean of its gradient is that of KL(π_ref ‖ π);
- abs = |Δ|; the mean of its gradient is that of Σ|π − π_ref|, twice the total variation.

``unbiased`` multiplies by ρ = π/π_old with its gradient (DeepSeek-V3.2, arXiv 2512.02556, section 3.1): then value
and gradient of k1 and k3 are both those of KL(π ‖ π_ref), also for tokens that π_old drew.
"""

from typing import assert_never

from torch import Tensor

from upturn.training.loss import Objective, TokenBatch, TokenStatistics, apply_mask, total
from upturn.training.losses.kl import k3
from upturn.training.policy_settings import KlEstimator


def kl_estimates(batch: TokenBatch, estimator: KlEstimator) -> Tensor:
    """The estimator's value per token; exactly 0 where the mask is False. Needs ``reference_logprobs``."""
    assert batch.reference_logprobs is not None
    differences = apply_mask(batch.reference_logprobs, batch.mask) - apply_mask(batch.logprobs, batch.mask)
    match estimator:
        case "k1":
            return -differences
        case "k2":
            return differences.square() / 2
        case "k3":
            return k3(differences, differences.exp())
        case "abs":
            return differences.abs()
        case _:
            assert_never(estimator)


class WithTeacher:
    """An objective plus ``coefficient`` times the exact KL(π ‖ π_teacher) before each token.

    The histories are the sampler's: the gradient is that of the next token's distribution, not of reaching them.
    """

    def __init__(self, objective: Objective, coefficient: float) -> None:
        self.objective = objective
        self.coefficient = coefficient

    def losses(self, batch: TokenBatch) -> Tensor:
        """The objective's losses + coefficient·KL. Needs ``divergences``."""
        assert batch.divergences is not None
        return self.objective.losses(batch) + self.coefficient * apply_mask(batch.divergences, batch.mask)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """The objective's statistics, and ``teacher_kl``."""
        assert batch.divergences is not None
        inner = self.objective.statistics(batch)
        return inner._replace(
            sums={**inner.sums, "teacher_kl": total(apply_mask(batch.divergences.detach(), batch.mask))}
        )


class WithKl:
    """An objective plus ``coefficient`` times the KL divergence to the reference policy, token by token.

    Sampler corrections do not apply to the KL term; the tokens' scales do.
    """

    def __init__(
        self, objective: Objective, coefficient: float, *, estimator: KlEstimator = "k3", unbiased: bool = False
    ) -> None:
        self.objective = objective
        self.coefficient = coefficient
        self.estimator: KlEstimator = estimator
        self.unbiased = unbiased

    def losses(self, batch: TokenBatch) -> Tensor:
        """The objective's losses + β·KL, or + β·ρ·KL where unbiased."""
        estimates = kl_estimates(batch, self.estimator)
        if self.unbiased:
            ratios = (apply_mask(batch.logprobs, batch.mask) - apply_mask(batch.old_logprobs, batch.mask)).exp()
            estimates = ratios * estimates
        return self.objective.losses(batch) + self.coefficient * estimates

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """The objective's statistics, and ``kl_reference`` (always k3, so that runs are comparable)."""
        inner = self.objective.statistics(batch)
        return inner._replace(sums={**inner.sums, "kl_reference": total(kl_estimates(batch, "k3"))})
