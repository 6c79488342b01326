"""Evaluation of agent versions: held-out evaluations, frozen suites, reference scores.

Here: evaluating a version on held-out tasks, comparing two versions, suites, verifying stored trajectories again,
model selection during training, and the choice between training stages. Not here: statistics (``deployment``) and
training (``trainers``). Start with ``evaluate``.
"""

from upturn.loop.evaluation.evaluate import (
    HELDOUT,
    HeldoutResult,
    Mark,
    compare,
    evaluate_heldout,
    evaluate_version,
    evaluation_tasks,
    extra_heldout_tasks,
    families_of,
    heldout_tasks,
    levels_of,
)
from upturn.loop.evaluation.heldout_design import warn_of_few_tasks
from upturn.loop.evaluation.model_selection import configured_evaluation, selection_evaluation, selection_tasks
from upturn.loop.evaluation.reference_scores import Floor, measure_floor
from upturn.loop.evaluation.reverify import Reverified, reverify
from upturn.loop.evaluation.reward_audit import audit_training, audited_run
from upturn.loop.evaluation.stage_choice import Stage, StageChoice, choose_stage
from upturn.loop.evaluation.suite_metrics import SuiteResult, metrics, run_oracle, run_tasks
from upturn.loop.evaluation.suite_run import SuiteRun
from upturn.loop.evaluation.tool_adoption import tool_adoption

__all__ = [
    "HELDOUT",
    "Floor",
    "HeldoutResult",
    "Mark",
    "Reverified",
    "Stage",
    "StageChoice",
    "SuiteResult",
    "SuiteRun",
    "audit_training",
    "audited_run",
    "choose_stage",
    "compare",
    "configured_evaluation",
    "evaluate_heldout",
    "evaluate_version",
    "evaluation_tasks",
    "extra_heldout_tasks",
    "families_of",
    "heldout_tasks",
    "levels_of",
    "measure_floor",
    "metrics",
    "reverify",
    "run_oracle",
    "run_tasks",
    "selection_evaluation",
    "selection_tasks",
    "tool_adoption",
    "warn_of_few_tasks",
]
