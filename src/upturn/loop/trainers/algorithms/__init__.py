"""What the registered algorithms train on: one module for each, which ends with its ``Algorithm``.

A module joins an algorithm of ``upturn.training`` with the pool, the environment and the agents. Not here: the
registry and what all of them share (``loop.trainers``). Start with ``sft``.
"""

from upturn.loop.trainers.algorithms.grpo import train_grpo
from upturn.loop.trainers.algorithms.rft import bootstrap_over_seeds, iteration_tasks
from upturn.loop.trainers.algorithms.sft import take_training_snapshot, train_sft
from upturn.loop.trainers.algorithms.world_model import rehearsal_rows, split_transitions

__all__ = [
    "bootstrap_over_seeds",
    "iteration_tasks",
    "rehearsal_rows",
    "split_transitions",
    "take_training_snapshot",
    "train_grpo",
    "train_sft",
]
