"""The estimator that settings describe."""

from typing import assert_never

from upturn.training.advantage import Advantage
from upturn.training.advantages.combined import Combined
from upturn.training.advantages.divergence import ERROR_PROBABILITY, FirstDivergence
from upturn.training.advantages.monte_carlo import MonteCarloDelta
from upturn.training.advantages.settings import AdvantageSettings
from upturn.training.advantages.shaping import Shaped
from upturn.training.advantages.state import StateAnchored
from upturn.training.advantages.trajectory import GroupRelative
from upturn.training.advantages.tree import TreeSiblings
from upturn.training.advantages.turn import TurnRelative


def advantage_of(settings: AdvantageSettings) -> Advantage:
    """The estimator that the settings describe, within one group; ``rescaled`` does the rest of an iteration's, and
    ``Constrained`` goes before it where costs have budgets."""
    own = _estimator(settings)
    if settings.estimator in ("trajectory", "state") or settings.turn_weight is None:
        return own
    outcome = AdvantageSettings(
        gamma=settings.gamma, baseline=settings.baseline, scale=settings.scale, is_shaped=settings.is_shaped
    )
    return Combined(_estimator(outcome), own, settings.turn_weight)


def _estimator(settings: AdvantageSettings) -> Advantage:
    gamma, is_scaled = settings.gamma, settings.scale == "std"
    match settings.estimator:
        case "trajectory":
            found: Advantage = GroupRelative(gamma=gamma, baseline=settings.baseline, scale=settings.scale)
        case "turn":
            found = TurnRelative(gamma=gamma, is_scaled=is_scaled)
        case "state":
            weight = 1.0 if settings.turn_weight is None else settings.turn_weight
            return StateAnchored(gamma=gamma, turn_weight=weight, is_scaled=is_scaled, anchor=settings.anchor)
        case "tree":
            return TreeSiblings(baseline=settings.baseline)
        case "monte_carlo":
            return MonteCarloDelta(gamma=gamma)
        case "divergence":
            return FirstDivergence(
                gamma=gamma,
                error_probability=settings.error_probability or ERROR_PROBABILITY,
                value_range=settings.value_range or 1.0,
            )
        case _:
            assert_never(settings.estimator)
    return Shaped(found, gamma=gamma) if settings.is_shaped else found
