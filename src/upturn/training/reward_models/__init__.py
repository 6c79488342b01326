"""Reward models: models with a scalar output that score trajectories, as a whole or turn by turn.

Here: what a model's folder says about it, saving and loading, scores of trajectories, and measures on held-out
data. Not here: training (``algorithms.reward_model``, ``algorithms.process_reward``) and their use in rewards
(``upturn.loop``). Start with ``scoring``."""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.reward_models.description import (
    Aggregation,
    RewardKind,
    RewardModelDescription,
    StoredDescription,
    read_description,
)
from upturn.training.reward_models.guard import proxy_metrics
from upturn.training.reward_models.held_out import (
    Calibration,
    JudgedTurns,
    RankedPair,
    Ranking,
    calibration,
    ranking,
    separation,
)
from upturn.training.reward_models.label import (
    LabelledTrajectory,
    LabelSource,
    continuation_targets,
    outcome_targets,
    potential_targets,
)

if TYPE_CHECKING:
    from upturn.training.reward_models.folder import load_reward_model, save_reward_model
    from upturn.training.reward_models.scoring import RewardModel, aggregate, logistic, model_outputs, read_rows
else:
    __getattr__ = lazy_names(
        __name__,
        dict.fromkeys(("load_reward_model", "save_reward_model"), "folder")
        | dict.fromkeys(("RewardModel", "aggregate", "logistic", "model_outputs", "read_rows"), "scoring"),
    )

__all__ = [
    "Aggregation",
    "Calibration",
    "JudgedTurns",
    "LabelSource",
    "LabelledTrajectory",
    "RankedPair",
    "Ranking",
    "RewardKind",
    "RewardModel",
    "RewardModelDescription",
    "StoredDescription",
    "aggregate",
    "calibration",
    "continuation_targets",
    "load_reward_model",
    "logistic",
    "model_outputs",
    "outcome_targets",
    "potential_targets",
    "proxy_metrics",
    "ranking",
    "read_description",
    "read_rows",
    "save_reward_model",
    "separation",
]
