"""What a caller says of a run beside its data and settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upturn.errors import TrainingError
from upturn.training.evaluation_result import Evaluate
from upturn.training.runs.curve import Progress


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Which run it is, and what follows it. Raises TrainingError for a negative seed."""

    seed: int
    """Everything random in the run is derived from it, 0 or more."""
    folder: Path
    """Where the run leaves its files, and resumes from."""
    evaluate: Evaluate | Sequence[Any] | None = None
    """Called with the units done (in training in epochs: with the epochs), first with 0; it may depend on its
    argument, the seed and the weights only. Supervised training, DPO and world models also take held-out data in
    its place. None = never evaluated, which the settings have to say too."""
    progress: Progress | None = None
    """Called with every point of the curve; None = nothing is told."""

    @property
    def evaluation(self) -> Evaluate | None:
        """``evaluate``, for runs that take a function only. Raises TrainingError for data in its place."""
        if isinstance(self.evaluate, Sequence):
            raise TrainingError("this run is evaluated by a function, not on held-out data; give one, or None")
        return self.evaluate

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise TrainingError(f"seed must be 0 or more, got {self.seed!r}")
