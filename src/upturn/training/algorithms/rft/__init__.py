"""The settings of reinforcement from a few tasks, which runs as GRPO does.

Not here: the control rewards (``upturn.rewards``) and the runs (``upturn.loop.trainers.rft``).
"""

from upturn.training.algorithms.rft.settings import RftSettings

__all__ = ["RftSettings"]
