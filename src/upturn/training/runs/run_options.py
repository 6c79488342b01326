"""The arguments of a run other than its data and settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upturn.errors import TrainingError
from upturn.training.evaluation_result import Evaluate
from upturn.training.runs.curve import Progress
from upturn.training.runs.trackers import Tracking


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Seed, folder and callbacks of a run. Raises TrainingError for a negative seed."""

    seed: int
    """The source of all randomness in the run, 0 or more."""
    folder: Path
    """Where the run writes its files and resumes from."""
    evaluate: Evaluate | Sequence[Any] | None = None
    """Is called with the units done (in training in epochs: the epochs), first with 0; may depend on its argument,
    the seed and the weights only. Supervised training, DPO and world models also take held-out data instead. None =
    no evaluation, which needs ``evaluate_every=None``."""
    progress: Progress | None = None
    """Is called with every point of the curve; None = no callback."""
    tracking: Tracking | None = None
    """The services that receive the curve; None = none."""

    @property
    def evaluation(self) -> Evaluate | None:
        """``evaluate``, for runs that take a function only. Raises TrainingError for held-out data."""
        if isinstance(self.evaluate, Sequence):
            raise TrainingError("this run is evaluated by a function, not on held-out data; give one, or None")
        return self.evaluate

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise TrainingError(f"seed must be 0 or more, got {self.seed!r}")
