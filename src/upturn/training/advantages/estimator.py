"""The advantage estimator of the settings, alone or combined with the outcome's."""

from typing import assert_never

from upturn.training.advantage import Advantage, GroupAdvantages, Need, ScoredGroup
from upturn.training.advantages.components import ComponentRelative
from upturn.training.advantages.divergence import ERROR_PROBABILITY, FirstDivergence
from upturn.training.advantages.monte_carlo import MonteCarloDelta
from upturn.training.advantages.returns import group_advantages
from upturn.training.advantages.settings import AdvantageSettings
from upturn.training.advantages.shaping import Shaped
from upturn.training.advantages.state import StateAnchored
from upturn.training.advantages.trajectory import GroupRelative
from upturn.training.advantages.tree import TreeSiblings
from upturn.training.advantages.turn import TurnRelative


def advantage_of(settings: AdvantageSettings) -> Advantage:
    """The estimator of the settings within one group.

    ``rescaled`` applies an iteration's scale afterwards, and ``Constrained`` wraps it where costs have budgets.
    """
    estimator = _estimator(settings)
    if settings.estimator in ("trajectory", "state") or settings.turn_weight is None:
        return estimator
    outcome = GroupRelative(gamma=settings.gamma, baseline=settings.baseline, scale=settings.scale)
    return Combined(outcome, estimator, settings.turn_weight)


class Combined:
    """A = A of ``outcome`` + ``weight`` · A of ``turn``, turn by turn."""

    def __init__(self, outcome: Advantage, turn: Advantage, weight: float) -> None:
        self.outcome = outcome
        self.turn = turn
        self.weight = weight
        self.needs: frozenset[Need] = outcome.needs | turn.needs

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member; the returns are those of ``outcome``."""
        first, second = self.outcome(group), self.turn(group)
        sums = [
            [outcome + self.weight * turn for outcome, turn in zip(*pair, strict=True)]
            for pair in zip(first.turns, second.turns, strict=True)
        ]
        return group_advantages(sums, first.returns)


def _estimator(settings: AdvantageSettings) -> Advantage:
    gamma, is_scaled = settings.gamma, settings.scale == "std"
    match settings.estimator:
        case "trajectory":
            return GroupRelative(gamma=gamma, baseline=settings.baseline, scale=settings.scale)
        case "turn":
            estimator = TurnRelative(gamma=gamma, is_scaled=is_scaled)
            return Shaped(estimator, gamma=gamma) if settings.is_shaped else estimator
        case "state":
            weight = 1.0 if settings.turn_weight is None else settings.turn_weight
            return StateAnchored(gamma=gamma, turn_weight=weight, is_scaled=is_scaled, anchor=settings.anchor)
        case "components":
            return ComponentRelative()
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
