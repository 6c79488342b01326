"""Advantage estimators: each maps a group's rewards to one number per turn.

They compare trajectories of a task (``GroupRelative``), each component of their rewards (``ComponentRelative``),
turns with the same index (``TurnRelative``), turns from one state (``StateAnchored``), trajectories with a common
token history (``TreeSiblings``), or measured state values (``MonteCarloDelta``, ``FirstDivergence``); ``needs``
names further inputs. Not here: PPO's GAE (``algorithms.ppo``) and losses. Start with ``estimator``, which builds
the one of the settings, then ``trajectory``."""

from upturn.training.advantages.components import ComponentRelative
from upturn.training.advantages.divergence import ERROR_PROBABILITY, FirstDivergence
from upturn.training.advantages.estimator import Combined, advantage_of
from upturn.training.advantages.lagrangian import Constrained, Multipliers
from upturn.training.advantages.monte_carlo import MonteCarloDelta, measured_values
from upturn.training.advantages.returns import checked_rewards, differ, mean_of, rewards_to_go
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
    "ComponentRelative",
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
    "rewards_to_go",
    "shaped_rewards",
    "shared_histories",
    "whitening",
]
