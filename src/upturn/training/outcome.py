"""The outcome of a training run. No torch here."""

from typing import Literal

from upturn.records import record
from upturn.training.run_settings import Keep

StopReason = Literal["finished", "target", "patience", "limit"]
"""``finished``: all units are done. ``target``: the target score was reached. ``patience``: no new best score for
that many evaluations. ``limit``: a cost exceeded its limit after an evaluation within all limits, or no evaluation
was within them."""


@record
class TrainingOutcome:
    """The end of a run; the trained model has the weights selected by ``kept``."""

    stopped: StopReason
    units: int
    """Finished iterations (reinforcement learning) or optimiser steps (supervised training)."""
    steps: int
    """Optimiser steps of the whole run."""
    kept: Keep
    """With limits on costs and no evaluation within them the model has its initial weights, ``kept_units`` is 0 and
    ``best_score`` None."""
    kept_units: int
    """The unit after which the model had its present weights."""
    weights_hash: str
    """Of the present weights."""
    final_score: float | None
    """Score of the last evaluation; None = no evaluation."""
    best_score: float | None
    """Score of the best evaluation within the limits; None = there was none."""
