"""What ``upturn train`` and the cycle run: an algorithm, the data it learns from, and the version it makes.

One module an algorithm, which joins its run in ``upturn.training`` with the pool, the environment and the agents,
and ends in its ``Algorithm``; ``registry`` names them all. Not here: losses, gradients, settings
(``upturn.training``). Start with ``sft``, then ``train_command``.
"""

from upturn.loop.trainers.candidate import keep_version, limits_told, training_folder
from upturn.loop.trainers.distributed_training import attend, jointly, leading, refuse_together
from upturn.loop.trainers.grpo import train_grpo
from upturn.loop.trainers.model_card import write_card
from upturn.loop.trainers.pool_data import rendered_demonstrations, with_copied_pool
from upturn.loop.trainers.registry import (
    ALGORITHMS,
    Algorithm,
    algorithm,
    load_full_config,
    parse_full_config,
    run_name,
    section_name,
    sections,
)
from upturn.loop.trainers.rft import over_seeds, rounds_of
from upturn.loop.trainers.rl_training import practice_weights
from upturn.loop.trainers.sft import take_training_snapshot, train_sft
from upturn.loop.trainers.train_command import check, student, teach
from upturn.loop.trainers.training_plan import Plan, in_epochs, rows_plan
from upturn.loop.trainers.world_model import observed, own_rows

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Plan",
    "algorithm",
    "attend",
    "check",
    "in_epochs",
    "jointly",
    "keep_version",
    "leading",
    "limits_told",
    "load_full_config",
    "observed",
    "over_seeds",
    "own_rows",
    "parse_full_config",
    "practice_weights",
    "refuse_together",
    "rendered_demonstrations",
    "rounds_of",
    "rows_plan",
    "run_name",
    "section_name",
    "sections",
    "student",
    "take_training_snapshot",
    "teach",
    "train_grpo",
    "train_sft",
    "training_folder",
    "with_copied_pool",
    "write_card",
]
