"""Training of a process reward model: the probability of success after each turn.

Not here: the targets, and the model's folder and scores (``reward_models``). Start with ``run``."""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.process_reward.settings import ProcessRewardSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.process_reward.run import TurnOutputs, run_process_reward
else:
    __getattr__ = lazy_names(__name__, {"TurnOutputs": "run", "run_process_reward": "run"})

__all__ = ["ProcessRewardSettings", "TurnOutputs", "run_process_reward"]
