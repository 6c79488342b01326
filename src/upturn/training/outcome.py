"""How a training run ended. No torch here."""

from typing import Literal

from upturn.records import record
from upturn.training.settings import Keep

StopReason = Literal["finished", "target", "patience"]
"""All units done, the target score reached, or no new best for as long as patience lasts."""


@record
class TrainingOutcome:
    """The end of a run; the model passed in then holds the weights of ``kept``."""

    stopped: StopReason
    units: int
    """Iterations (reinforcement learning) or optimiser steps (supervised training) that were done."""
    steps: int
    """Of the optimiser, over the whole run."""
    kept: Keep
    kept_units: int
    """The unit after which the model had the weights it has now."""
    weights_hash: str
    """Of the weights it has now."""
    final_score: float | None
    """Of the last evaluation; None = the run was never evaluated."""
    best_score: float | None
