"""An adaptive coefficient for KL divergence to a reference: larger while too far, smaller while too near.

No torch: the divergence is measured on recorded numbers, before an iteration's first step.
"""

from collections.abc import Mapping

_LARGEST_ERROR = 0.2
"""How much of the relative error one update may use (Ziegler et al., arXiv 1909.08593, section 2.2)."""


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
        """Takes in what a batch of ``trajectories`` showed."""
        error = min(max(kl / self.target - 1, -_LARGEST_ERROR), _LARGEST_ERROR)
        self.coefficient *= 1 + error * min(trajectories / self.horizon, 1.0)

    def state(self) -> dict[str, float]:
        """All of its state."""
        return {"kl_coefficient": self.coefficient}

    def load_state(self, numbers: Mapping[str, float]) -> None:
        """Goes back to a state that ``state`` gave."""
        self.coefficient = numbers["kl_coefficient"]
