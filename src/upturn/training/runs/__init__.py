"""Training runs on disk: units in order, evaluations, checkpoints, the learning curve, resuming.

Here: the run, its folder, its checkpoints, its curve (as JSON lines, for TensorBoard, and for services in
``trackers``), the meaning of each metric, and trained versions as model folders. Not here: the content of a unit
(``algorithms``). Start with ``run``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.runs.curve import CurvePoint, Progress, read_curve
from upturn.training.runs.metric import GROUPS, METRICS, PHASES, metric_of, seconds_of
from upturn.training.runs.run_folder import (
    CURVE_FILE,
    DESCRIPTION_FILE,
    MARKER,
    WARM_UP_FOLDER,
    RunDescription,
    RunPlan,
    plan_of,
    read_description,
    read_outcome,
)
from upturn.training.runs.run_options import RunOptions
from upturn.training.runs.trackers import Tracking, check_tracker, register_tracker

if TYPE_CHECKING:
    from upturn.training.runs.model_folder import (
        Stored,
        load_version,
        no_progress_bars,
        publish_folder,
        save_version,
        stored_type,
        write_model,
    )
    from upturn.training.runs.run import Run, check_evaluation, identity_of, summary
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "Stored": "model_folder",
            "load_version": "model_folder",
            "no_progress_bars": "model_folder",
            "publish_folder": "model_folder",
            "save_version": "model_folder",
            "stored_type": "model_folder",
            "write_model": "model_folder",
            "Run": "run",
            "check_evaluation": "run",
            "identity_of": "run",
            "summary": "run",
        },
    )

__all__ = [
    "CURVE_FILE",
    "DESCRIPTION_FILE",
    "GROUPS",
    "MARKER",
    "METRICS",
    "PHASES",
    "WARM_UP_FOLDER",
    "CurvePoint",
    "Progress",
    "Run",
    "RunDescription",
    "RunOptions",
    "RunPlan",
    "Stored",
    "Tracking",
    "check_evaluation",
    "check_tracker",
    "identity_of",
    "load_version",
    "metric_of",
    "no_progress_bars",
    "plan_of",
    "publish_folder",
    "read_curve",
    "read_description",
    "read_outcome",
    "register_tracker",
    "save_version",
    "seconds_of",
    "stored_type",
    "summary",
    "write_model",
]
