"""What ``upturn train`` and the cycle run: an algorithm, the data it learns from, and the version it makes.

One module an algorithm, which joins its run in ``upturn.training`` with the pool, the environment and the agents,
and ends in its ``Algorithm``; ``registry`` names them all. Not here: losses, gradients, settings
(``upturn.training``). Start with ``sft``, then ``train_command``.
"""

from upturn.loop.trainers.candidate import keep_version, limits_summary, training_folder
from upturn.loop.trainers.distributed_training import follow_rank0, jointly, lead_ranks, refuse_together
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
from upturn.loop.trainers.rl_training import family_weights
from upturn.loop.trainers.sft import take_training_snapshot, train_sft
from upturn.loop.trainers.train_command import check, run_training, trained_incumbent
from upturn.loop.trainers.training_plan import Plan, in_epochs, rows_plan
from upturn.loop.trainers.world_model import observed, own_rows

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Plan",
    "algorithm",
    "check",
    "family_weights",
    "follow_rank0",
    "in_epochs",
    "jointly",
    "keep_version",
    "lead_ranks",
    "limits_summary",
    "load_full_config",
    "observed",
    "over_seeds",
    "own_rows",
    "parse_full_config",
    "refuse_together",
    "rendered_demonstrations",
    "rounds_of",
    "rows_plan",
    "run_name",
    "run_training",
    "section_name",
    "sections",
    "take_training_snapshot",
    "train_grpo",
    "train_sft",
    "trained_incumbent",
    "training_folder",
    "with_copied_pool",
    "write_card",
]
