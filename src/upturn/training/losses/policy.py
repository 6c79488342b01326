"""The policy objective of the settings."""

from typing import assert_never

from upturn.training.loss import Objective
from upturn.training.losses.cispo import ClippedWeights
from upturn.training.losses.clipped import ClippedPolicy
from upturn.training.losses.divergence import WithKl
from upturn.training.losses.entropy import WithEntropy
from upturn.training.losses.gspo import SequencePolicy
from upturn.training.losses.off_policy import OffPolicyMasked
from upturn.training.losses.sapo import SoftGated
from upturn.training.losses.vespo import KernelWeighted
from upturn.training.policy_settings import KernelSettings, ObjectiveSettings


def policy_objective(
    settings: ObjectiveSettings, kl_coefficient: float | None = None, *, has_bonus: bool = True
) -> Objective:
    """The objective of these settings.

    ``kl_coefficient``: from an adaptive controller; None = the settings' value. ``has_bonus``: False = the entropy
    is above its floor, and only reported.
    """
    objective = _surrogate(settings)
    if settings.stale_limit is not None:
        objective = OffPolicyMasked(objective, settings.stale_limit)
    if settings.entropy is not None:
        objective = WithEntropy(objective, settings.entropy.coefficient if has_bonus else 0.0)
    kl = settings.kl
    if kl is None:
        return objective
    coefficient = kl.coefficient if kl_coefficient is None else kl_coefficient
    return WithKl(objective, coefficient, estimator=kl.estimator, unbiased=kl.unbiased)


def _surrogate(settings: ObjectiveSettings) -> Objective:
    low, high = settings.clips
    match settings.kind:
        case "clipped":
            return ClippedPolicy(low, high, settings.dual_clip)
        case "gspo":
            return SequencePolicy(low, high)
        case "turn":
            return SequencePolicy(low, high, extent="turn")
        case "cispo":
            return ClippedWeights(low, high)
        case "sapo":
            return SoftGated(*settings.gates)
        case "vespo":
            return KernelWeighted(settings.kernel or KernelSettings())
        case _:
            assert_never(settings.kind)
