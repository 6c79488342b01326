"""Estimators of credit: each turns a group's rewards into one number per turn, and says what else it needs.

| estimator | compares | needs |
| --- | --- | --- |
| ``GroupRelative`` | whole attempts | nothing |
| ``TurnRelative`` | turns of one index | nothing |
| ``StateAnchored`` | turns that began in one state | state hashes, or nothing |
| ``TreeSiblings`` | attempts that share a token history | token rows |
| ``MonteCarloDelta`` | a state with the next one | state values |
| ``FirstDivergence`` | the same, where it is shown | state values |
"""

from upturn.training.advantages.choice import advantage_of
from upturn.training.advantages.combined import Combined
from upturn.training.advantages.divergence import ERROR_PROBABILITY, FirstDivergence
from upturn.training.advantages.lagrangian import Constrained, Multipliers
from upturn.training.advantages.monte_carlo import MonteCarloDelta, measured_values
from upturn.training.advantages.returns import checked_rewards, differ, mean_of, to_go
from upturn.training.advantages.scale import rescaled, whitening
from upturn.training.advantages.settings import (
    AdvantageSettings,
    Anchor,
    Baseline,
    Estimator,
    LagrangianSettings,
    Scale,
)
from upturn.training.advantages.shaping import Shaped, shaped_rewards
from upturn.training.advantages.state import StateAnchored, anchor_groups
from upturn.training.advantages.trajectory import GroupRelative
from upturn.training.advantages.tree import History, TreeSiblings, shared_histories
from upturn.training.advantages.turn import TurnRelative

__all__ = [
    "ERROR_PROBABILITY",
    "AdvantageSettings",
    "Anchor",
    "Baseline",
    "Combined",
    "Constrained",
    "Estimator",
    "FirstDivergence",
    "GroupRelative",
    "History",
    "LagrangianSettings",
    "MonteCarloDelta",
    "Multipliers",
    "Scale",
    "Shaped",
    "StateAnchored",
    "TreeSiblings",
    "TurnRelative",
    "advantage_of",
    "anchor_groups",
    "checked_rewards",
    "differ",
    "mean_of",
    "measured_values",
    "rescaled",
    "shaped_rewards",
    "shared_histories",
    "to_go",
    "whitening",
]
