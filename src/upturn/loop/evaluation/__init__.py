"""Measuring agent versions: held-out evaluations, frozen suites, reference scores.

Here: evaluating a version on held-out tasks, comparing two versions, running suites, verifying stored
trajectories again, and choosing the best weights of a training run. Not here: statistics (``deployment``) and
training (``trainers``). Start with ``evaluate``.
"""

from upturn.loop.evaluation.evaluate import (
    HeldoutResult,
    Mark,
    compare,
    evaluate_heldout,
    evaluate_version,
    evaluation_tasks,
    families_of,
    heldout_tasks,
    levels_of,
)
from upturn.loop.evaluation.holdout import HOLDOUT, holdout
from upturn.loop.evaluation.model_selection import watch_of, watched, watcher
from upturn.loop.evaluation.reference_scores import Floor, measure_floor
from upturn.loop.evaluation.reverify import Reverified, reverify
from upturn.loop.evaluation.suite_metrics import Finished, attempted, metrics, perfect
from upturn.loop.evaluation.suite_run import Sitting

__all__ = [
    "HOLDOUT",
    "Finished",
    "Floor",
    "HeldoutResult",
    "Mark",
    "Reverified",
    "Sitting",
    "attempted",
    "compare",
    "evaluate_heldout",
    "evaluate_version",
    "evaluation_tasks",
    "families_of",
    "heldout_tasks",
    "holdout",
    "levels_of",
    "measure_floor",
    "metrics",
    "perfect",
    "reverify",
    "watch_of",
    "watched",
    "watcher",
]
