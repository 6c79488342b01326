"""Reinforcement from a few tasks: the settings. It runs as GRPO does.

Not here: the rewards of its controls (``upturn.rewards``) and the trials (``upturn.loop.trainers.rft``).
"""

from upturn.training.algorithms.rft.settings import RftSettings

__all__ = ["RftSettings"]
