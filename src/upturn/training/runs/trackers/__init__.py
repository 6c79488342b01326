"""Services that show training runs beside TensorBoard: W&B, MLflow, trackio and your own.

Here: the contract, the registry, the feed that keeps a service from slowing or stopping a run, and one file per
service, which imports its client when a run is opened. Not here: the curve itself (``curve.jsonl``), which is the
record of a run. Start with ``tracker``; ``mlflow_tracker`` is an example.
"""

from upturn.training.runs.trackers.feed import TrackerFeed
from upturn.training.runs.trackers.registry import Tracking, check_tracker, register_tracker
from upturn.training.runs.trackers.tracker import RunEnd, TrackedRun, Tracker, end_of

__all__ = [
    "RunEnd",
    "TrackedRun",
    "Tracker",
    "TrackerFeed",
    "Tracking",
    "check_tracker",
    "end_of",
    "register_tracker",
]
