"""Trackers by name, and the choice of a run among them."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple

from upturn.errors import TrainingError
from upturn.training.runs.trackers.mlflow_tracker import MlflowTracker
from upturn.training.runs.trackers.tracker import TrackedRun, Tracker
from upturn.training.runs.trackers.trackio_tracker import TrackioTracker
from upturn.training.runs.trackers.wandb_tracker import WandbTracker


class _Kind(NamedTuple):
    open: Callable[[TrackedRun], Tracker]
    package: str
    """Package that must be installed; empty = none."""


_KINDS = {
    "wandb": _Kind(WandbTracker, "wandb"),
    "mlflow": _Kind(MlflowTracker, "mlflow"),
    "trackio": _Kind(TrackioTracker, "trackio"),
}


@dataclass(frozen=True, slots=True)
class Tracking:
    """Which trackers a run feeds, and its name there. Raises TrainingError for an unknown or missing one."""

    names: tuple[str, ...]
    project: str
    run: str
    """Name of the run in the project."""

    def __post_init__(self) -> None:
        for name in self.names:
            check_tracker(name)


def register_tracker(name: str, open_tracker: Callable[[TrackedRun], Tracker]) -> None:
    """Makes a tracker available under a name, in place of any other with this name."""
    _KINDS[name] = _Kind(open_tracker, "")


def open_tracker(name: str, run: TrackedRun) -> Tracker:
    """Returns the tracker ``name`` for a run. Raises what its client raises."""
    return _KINDS[name].open(run)


def check_tracker(name: str) -> None:
    """Raises TrainingError for an unknown name, and for a client that is not installed."""
    if name not in _KINDS:
        raise TrainingError(
            f"unknown tracker {name!r}; known: {', '.join(_KINDS)}; add your own with register_tracker"
        )
    package = _KINDS[name].package
    if package and find_spec(package) is None:
        raise TrainingError(
            f"tracker {name!r} needs its client, which is not installed: pip install 'upturn[{name}]'"
        )
