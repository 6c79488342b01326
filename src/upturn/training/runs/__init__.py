"""Training runs on disk: units in order, evaluations, checkpoints, the learning curve, resuming.

Here: the run, its folder, its checkpoint, its curve (as JSON lines and for TensorBoard), the meaning of each
metric, and trained versions as model folders. Not here: the content of a unit (``algorithms``). Start with ``run``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.runs.curve import CurvePoint, Progress, read_curve
from upturn.training.runs.metric import GROUPS, METRICS, PHASES, metric_of, seconds_of
from upturn.training.runs.run_folder import (
    CURVE_FILE,
    DESCRIPTION_FILE,
    WARM_UP_FOLDER,
    RunDescription,
    RunPlan,
    plan_of,
    read_description,
    read_outcome,
)
from upturn.training.runs.run_options import RunOptions

if TYPE_CHECKING:
    from upturn.training.runs.model_folder import Stored, load_version, save_version, stored_type, write_model
    from upturn.training.runs.run import Run, check_evaluation, identity_of, summary
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "Stored": "model_folder",
            "load_version": "model_folder",
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
    "check_evaluation",
    "identity_of",
    "load_version",
    "metric_of",
    "plan_of",
    "read_curve",
    "read_description",
    "read_outcome",
    "save_version",
    "seconds_of",
    "stored_type",
    "summary",
    "write_model",
]
