"""Whether two sides computed the same: loss and gradient of their first step, compared before anything is timed."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file

from upturn.errors import MeasurementError
from upturn.training import FloatArray

TOLERANCE = 1e-4
"""Largest relative difference that float32 explains; observed are about 1e-6."""
ROUGH_TOLERANCE = 0.05
"""The same of ``Agreement.whole`` and of the loss where a side computes in bfloat16, whose numbers have eight bits.
Observed on a CPU with autocast: TRL and the library each lie 0.006 (2 layers) to 0.011 (12 and 24) from the float32
dense path, and as far from each other; attention that also sees the other attempts lies 0.23 from it."""


class Agreement(NamedTuple):
    """How far two sides are apart."""

    loss: float
    """|Δ| as a share of the reference's loss."""
    gradient: float
    """The largest |Δ| in a parameter's gradient as a share of that gradient's largest entry; of all parameters the
    worst."""
    parameter: str
    """The worst one's name."""
    whole: float
    """2-norm of Δ over the gradient of all parameters together, as a share of the reference's 2-norm."""

    def check(self, names: str) -> None:
        """Raises MeasurementError, saying by how much, when the sides do not compute the same."""
        if self.loss <= TOLERANCE and self.gradient <= TOLERANCE:
            return
        raise MeasurementError(
            f"{names} do not compute the same update: the loss differs by {self.loss:.2g} of it, the gradient of "
            f"{self.parameter!r} by {self.gradient:.2g} of its largest entry (allowed: {TOLERANCE:g}); "
            "nothing was timed"
        )

    def check_rounded(self, names: str) -> None:
        """The same where a side computed in bfloat16, by the gradient as a whole: single parameters round worse."""
        if self.loss <= ROUGH_TOLERANCE and self.whole <= ROUGH_TOLERANCE:
            return
        raise MeasurementError(
            f"{names} do not compute the same update: the loss differs by {self.loss:.2g} of it, the gradient by "
            f"{self.whole:.2g} of its 2-norm (bfloat16 explains {ROUGH_TOLERANCE:g}); nothing was timed"
        )


def compare(loss: float, gradient: Path, *, reference_loss: float, reference_gradient: Path) -> Agreement:
    """Of two gradients in safetensors files. Raises MeasurementError when they name different parameters."""
    ours, theirs = load_file(gradient), load_file(reference_gradient)
    if ours.keys() != theirs.keys():
        odd = sorted(ours.keys() ^ theirs.keys())
        raise MeasurementError(f"the sides have gradients of different parameters, such as {odd[0]!r}")
    gaps = {
        name: float(np.abs(ours[name] - known).max() / max(float(np.abs(known).max()), np.finfo(np.float32).tiny))
        for name, known in theirs.items()
    }
    worst = max(gaps, key=lambda name: _unless_nan(gaps[name]))
    squares = sum(_squared(ours[name] - known) for name, known in theirs.items())
    whole = math.sqrt(squares / max(sum(_squared(known) for known in theirs.values()), np.finfo(np.float32).tiny))
    return Agreement(
        _unless_nan(abs(loss - reference_loss) / abs(reference_loss)),
        _unless_nan(gaps[worst]),
        worst,
        _unless_nan(whole),
    )


def _squared(values: FloatArray) -> float:
    return float(np.square(values, dtype=np.float64).sum())


def _unless_nan(value: float) -> float:
    """NaN compares as if it were nothing; here it is the worst there is."""
    return float("inf") if np.isnan(value) else value
