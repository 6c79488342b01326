"""A phase of pre-training: its mixture of demonstrations and its learning rate."""

from collections.abc import Mapping
from random import Random

from upturn.records import record

ROWS = 64
"""Demonstrations per step."""
BUCKET = 4
"""Steps whose demonstrations are drawn together and sorted by length, to reduce padding."""


@record
class Phase:
    """Consecutive steps with one mixture and a new optimiser."""

    name: str
    first_step: int
    """Index in the whole schedule, by which demonstrations are numbered."""
    steps: int
    mixture: Mapping[str, float]
    """Weight of each kind of demonstration of the course's ``walk``."""
    learning_rate: float
    """After ``warmup_steps``; falls linearly to a tenth over the last ``decay_steps``."""
    warmup_steps: int
    decay_steps: int

    def learning_rate_factor(self, step: int) -> float:
        """Share of the learning rate for the step after ``step`` steps of this phase."""
        remaining = (self.steps - step) / self.decay_steps
        return min(1.0, (step + 1) / self.warmup_steps) * max(0.1, min(1.0, remaining))


def kinds_of_step(phase: Phase, step: int) -> list[tuple[str, int]]:
    """Kind and number of each demonstration in the bucket that begins with ``step`` of a phase."""
    first = phase.first_step + step
    rng = Random(f"pretraining/{first}")
    kinds = rng.choices(list(phase.mixture), list(phase.mixture.values()), k=ROWS * BUCKET)
    return [(kind, first * ROWS + index) for index, kind in enumerate(kinds)]
