"""How a training run ended. No torch here."""

from typing import Literal

from upturn.records import record
from upturn.training.run_settings import Keep

StopReason = Literal["finished", "target", "patience", "limit"]
"""All units done; the target score reached; no new best for as long as patience lasts; a cost above its limit after
an evaluation within all of them, or no evaluation within them at all."""


@record
class TrainingOutcome:
    """The end of a run; the model passed in then holds the weights of ``kept``."""

    stopped: StopReason
    units: int
    """Iterations (reinforcement learning) or optimiser steps (supervised training) that were done."""
    steps: int
    """Of the optimiser, over the whole run."""
    kept: Keep
    """With limits on costs and no evaluation within them nothing is kept: the model has the weights from before
    training, ``kept_units`` is 0 and ``best_score`` None."""
    kept_units: int
    """The unit after which the model had the weights it has now."""
    weights_hash: str
    """Of the weights it has now."""
    final_score: float | None
    """Of the last evaluation; None = the run was never evaluated."""
    best_score: float | None
    """Of the best evaluation within the limits; None = there was none."""
