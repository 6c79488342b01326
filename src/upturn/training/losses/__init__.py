"""Objectives: pure functions of log-probabilities that give one loss per token. Needs torch, except for ``kl``.

Policy objectives (``clipped``, ``gspo``, ``cispo``, ``sapo``, ``vespo``) with KL terms (``divergence``), an entropy
bonus (``entropy``) and off-policy masks, preference and supervised losses, and the ``value`` losses of models with
a scalar output. Not here: aggregation over tokens (``optimisation.aggregation``) and advantages. Start with
``policy``, which builds the objective of the settings.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.losses.kl import AdaptiveCoefficient, k3

if TYPE_CHECKING:
    from upturn.training.losses.cispo import ClippedWeights
    from upturn.training.losses.clipped import ClippedPolicy, clipped_policy_losses
    from upturn.training.losses.divergence import WithKl, WithTeacher, kl_estimates
    from upturn.training.losses.entropy import WithEntropy
    from upturn.training.losses.gspo import SequencePolicy
    from upturn.training.losses.off_policy import OffPolicyMasked
    from upturn.training.losses.policy import policy_objective
    from upturn.training.losses.preference import PairedPreference, RankedScores, RatedPreference, pair_losses
    from upturn.training.losses.ratio import log_ratios, probability_ratios
    from upturn.training.losses.sapo import SoftGated
    from upturn.training.losses.supervised import CrossEntropy, cross_entropy_losses
    from upturn.training.losses.value import SquaredError, SuccessProbability
    from upturn.training.losses.vespo import KernelWeighted
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "ClippedWeights": "cispo",
            "ClippedPolicy": "clipped",
            "clipped_policy_losses": "clipped",
            "WithKl": "divergence",
            "WithTeacher": "divergence",
            "kl_estimates": "divergence",
            "WithEntropy": "entropy",
            "SequencePolicy": "gspo",
            "OffPolicyMasked": "off_policy",
            "policy_objective": "policy",
            "PairedPreference": "preference",
            "RankedScores": "preference",
            "RatedPreference": "preference",
            "pair_losses": "preference",
            "log_ratios": "ratio",
            "probability_ratios": "ratio",
            "SoftGated": "sapo",
            "CrossEntropy": "supervised",
            "cross_entropy_losses": "supervised",
            "SquaredError": "value",
            "KernelWeighted": "vespo",
            "SuccessProbability": "value",
        },
    )

__all__ = [
    "AdaptiveCoefficient",
    "ClippedPolicy",
    "ClippedWeights",
    "CrossEntropy",
    "KernelWeighted",
    "OffPolicyMasked",
    "PairedPreference",
    "RankedScores",
    "RatedPreference",
    "SequencePolicy",
    "SoftGated",
    "SquaredError",
    "SuccessProbability",
    "WithEntropy",
    "WithKl",
    "WithTeacher",
    "clipped_policy_losses",
    "cross_entropy_losses",
    "k3",
    "kl_estimates",
    "log_ratios",
    "pair_losses",
    "policy_objective",
    "probability_ratios",
]
