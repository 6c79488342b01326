"""Trainers: what ``upturn train`` and the cycle run to train a version of an agent.

``registry`` lists the algorithms, whose modules are in ``algorithms``; the modules here are what they share. Not
here: losses, gradients, settings (``upturn.training``). Start with ``train_command``.
"""

from upturn.loop.trainers.algorithms import (
    bootstrap_over_seeds,
    iteration_tasks,
    rehearsal_rows,
    split_transitions,
    take_training_snapshot,
    train_grpo,
    train_sft,
)
from upturn.loop.trainers.candidate import limits_summary, save_candidate, training_folder
from upturn.loop.trainers.distributed_training import follow_rank0, lead_ranks, train_on_all_ranks
from upturn.loop.trainers.model_card import write_card, write_stage_card
from upturn.loop.trainers.pool_data import render_demonstrations, with_copied_pool
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
from upturn.loop.trainers.rl_training import family_weights
from upturn.loop.trainers.stored_evidence import StoredWay, survey_stored
from upturn.loop.trainers.train_command import check, run_training, trained_incumbent
from upturn.loop.trainers.training_plan import Plan, epoch_workload, plan_on_rows

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Plan",
    "StoredWay",
    "algorithm",
    "bootstrap_over_seeds",
    "check",
    "epoch_workload",
    "family_weights",
    "follow_rank0",
    "iteration_tasks",
    "lead_ranks",
    "limits_summary",
    "load_full_config",
    "parse_full_config",
    "plan_on_rows",
    "rehearsal_rows",
    "render_demonstrations",
    "run_name",
    "run_training",
    "save_candidate",
    "section_name",
    "sections",
    "split_transitions",
    "survey_stored",
    "take_training_snapshot",
    "train_grpo",
    "train_on_all_ranks",
    "train_sft",
    "trained_incumbent",
    "training_folder",
    "with_copied_pool",
    "write_card",
    "write_stage_card",
]
