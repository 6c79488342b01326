"""Objectives: pure functions of log-probabilities that give one number per token. Needs torch.

``policy_objective`` makes the one that settings describe.
"""

from upturn.training.losses.cispo import BoundedWeights
from upturn.training.losses.clipped import ClippedPolicy, clipped_policy_losses
from upturn.training.losses.divergence import WithKl, kl_estimates
from upturn.training.losses.gspo import SequencePolicy
from upturn.training.losses.off_policy import WithoutStale
from upturn.training.losses.policy import policy_objective
from upturn.training.losses.preference import PairedPreference, RatedPreference, pair_losses
from upturn.training.losses.ratio import log_ratios, probability_ratios
from upturn.training.losses.supervised import CrossEntropy, cross_entropy_losses

__all__ = [
    "BoundedWeights",
    "ClippedPolicy",
    "CrossEntropy",
    "PairedPreference",
    "RatedPreference",
    "SequencePolicy",
    "WithKl",
    "WithoutStale",
    "clipped_policy_losses",
    "cross_entropy_losses",
    "kl_estimates",
    "log_ratios",
    "pair_losses",
    "policy_objective",
    "probability_ratios",
]
