"""Training of an outcome reward model: Bradley–Terry on pairs of trajectories.

Not here: the pairs (``data``), and the model's folder and scores (``reward_models``). Start with ``run``."""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.reward_model.settings import RewardModelSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.reward_model.run import PairOutputs, run_reward_model
else:
    __getattr__ = lazy_names(__name__, {"PairOutputs": "run", "run_reward_model": "run"})

__all__ = ["PairOutputs", "RewardModelSettings", "run_reward_model"]
