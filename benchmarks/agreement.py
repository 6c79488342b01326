"""Agreement of two implementations: loss and gradient of their first step, compared before anything is timed."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from upturn.errors import MeasurementError

if TYPE_CHECKING:
    from torch import Tensor

TINY = 1e-38
TOLERANCE = 1e-4
"""Largest relative difference that float32 explains; observed are about 1e-6."""
BFLOAT16_TOLERANCE = 0.05
"""Limit of ``Agreement.whole`` and of the loss where an implementation computes in bfloat16, which has eight bits.
Observed on a CPU with autocast: TRL and the library are each 0.006 (2 layers) to 0.011 (12 and 24) from the float32
dense path, and as far from each other; attention that also reads the other rollouts is 0.23 from it."""


class Agreement(NamedTuple):
    """Distance of an implementation from a reference."""

    loss: float
    """|Δ| as a share of the reference's loss."""
    gradient: float
    """Largest |Δ| in a parameter's gradient as a share of that gradient's largest entry; of all parameters the
    worst."""
    parameter: str
    """Name of the worst parameter."""
    whole: float
    """2-norm of Δ over the gradient of all parameters together, as a share of the reference's 2-norm."""

    def check(self, names: str) -> None:
        """Raises MeasurementError with the differences when the update is not the same up to float32 rounding."""
        if self.loss > TOLERANCE or self.gradient > TOLERANCE:
            raise MeasurementError(
                f"{names} do not compute the same update: the loss differs by {self.loss:.2g} of it, the gradient "
                f"of {self.parameter!r} by {self.gradient:.2g} of its largest entry (allowed: {TOLERANCE:g}); "
                "nothing was timed"
            )

    def check_bfloat16(self, names: str) -> None:
        """Like ``check`` for bfloat16, by the whole gradient: single parameters have larger rounding errors."""
        if self.loss > BFLOAT16_TOLERANCE or self.whole > BFLOAT16_TOLERANCE:
            raise MeasurementError(
                f"{names} do not compute the same update: the loss differs by {self.loss:.2g} of it, the gradient "
                f"by {self.whole:.2g} of its 2-norm (bfloat16 explains {BFLOAT16_TOLERANCE:g}); nothing was timed"
            )


def compare(loss: float, gradient: Path, *, reference_loss: float, reference_gradient: Path) -> Agreement:
    """The distance of two gradients in safetensors files. Raises MeasurementError for different parameters."""
    from safetensors.torch import load_file

    ours, reference = load_file(gradient), load_file(reference_gradient)
    if ours.keys() != reference.keys():
        unmatched = sorted(ours.keys() ^ reference.keys())
        raise MeasurementError(f"the gradients have different parameters, such as {unmatched[0]!r}")
    gaps: dict[str, float] = {}
    squares = reference_squares = 0.0
    for name, expected in reference.items():
        difference, largest = ours[name] - expected, float(expected.abs().max())
        gaps[name] = float(difference.abs().max()) / max(largest, TINY)
        squares += _sum_of_squares(difference)
        reference_squares += _sum_of_squares(expected)
    worst = max(gaps, key=lambda name: _nan_to_inf(gaps[name]))
    whole = math.sqrt(squares / max(reference_squares, TINY))
    loss_gap = abs(loss - reference_loss) / abs(reference_loss)
    return Agreement(_nan_to_inf(loss_gap), _nan_to_inf(gaps[worst]), worst, _nan_to_inf(whole))


def _sum_of_squares(values: "Tensor") -> float:
    return float(values.double().square().sum())


def _nan_to_inf(value: float) -> float:
    return float("inf") if math.isnan(value) else value
