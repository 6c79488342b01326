"""Ways of learning, each as one command runs it."""

from upturn.loop.trainers.candidate import keep_version, limits_told
from upturn.loop.trainers.cycle_training import take_training_snapshot, train_grpo, train_sft
from upturn.loop.trainers.distributed_training import attend, leading, refuse_together
from upturn.loop.trainers.model_card import write_card
from upturn.loop.trainers.pool_data import with_copied_pool
from upturn.loop.trainers.rft import over_seeds, rounds_of
from upturn.loop.trainers.rl_training import practice_weights
from upturn.loop.trainers.train_command import LESSONS, check, student, teach
from upturn.loop.trainers.world_model import observed, own_rows

__all__ = [
    "LESSONS",
    "attend",
    "check",
    "keep_version",
    "leading",
    "limits_told",
    "observed",
    "over_seeds",
    "own_rows",
    "practice_weights",
    "refuse_together",
    "rounds_of",
    "student",
    "take_training_snapshot",
    "teach",
    "train_grpo",
    "train_sft",
    "with_copied_pool",
    "write_card",
]
