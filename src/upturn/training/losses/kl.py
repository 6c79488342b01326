"""The k3 estimate of a KL divergence, and a KL coefficient that adapts to a target.

Does not load torch: the coefficient is updated from recorded numbers, before an iteration's first step.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Numbers = TypeVar("Numbers", "NDArray[np.float64]", "Tensor")

_LARGEST_ERROR = 0.2
"""How much of the relative error one update may use (Ziegler et al., arXiv 1909.08593, section 2.2)."""


def k3(differences: Numbers, ratios: Numbers) -> Numbers:
    """e^Δ − Δ − 1 of each, never negative; 0 for Δ = 0. ``ratios``: e^Δ, bounded as the caller needs it.

    Schulman, "Approximating KL divergence" (2020): the mean over tokens drawn from π, with Δ = log π' − log π, is
    KL(π ‖ π').
    """
    return ratios - differences - 1


class AdaptiveCoefficient:
    """β ← β·(1 + clip(KL/target − 1, ±0.2)·n/horizon), after each batch of n trajectories.

    Ziegler et al. (arXiv 1909.08593, section 2.2). Departures: KL is counted per token, not per rollout, so that a
    target does not depend on how long rollouts are; n/horizon counts as 1 at most, so that β stays positive. Its
    state is one plain number, which a checkpoint can hold.
    """

    def __init__(self, coefficient: float, *, target: float, horizon: int) -> None:
        """``target``: KL per token, positive. ``horizon``: trajectories."""
        self.coefficient = coefficient
        self.target = target
        self.horizon = horizon

    def update(self, kl: float, trajectories: int) -> None:
        """Updates the coefficient from the KL of a batch of ``trajectories``."""
        error = min(max(kl / self.target - 1, -_LARGEST_ERROR), _LARGEST_ERROR)
        self.coefficient *= 1 + error * min(trajectories / self.horizon, 1.0)

    def state(self) -> dict[str, float]:
        """The whole state."""
        return {"kl_coefficient": self.coefficient}

    def load_state(self, numbers: Mapping[str, float]) -> None:
        """Restores a state from ``state``."""
        self.coefficient = numbers["kl_coefficient"]
