"""The settings of reinforcement fine-tuning on a few tasks, which trains with GRPO.

Not here: the control rewards (``upturn.rewards``) and the runs (``upturn.loop.trainers.algorithms.rft``).
"""

from upturn.training.algorithms.rft.settings import RftSettings

__all__ = ["RftSettings"]
