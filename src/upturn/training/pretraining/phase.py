"""A stretch of pre-training: what is shown how often, and how fast is learned from it."""

from collections.abc import Mapping
from random import Random

from upturn.records import record

ROWS = 64
"""Demonstrations in one step."""
BUCKET = 4
"""Steps whose demonstrations are drawn together and sorted by length, to spare padding."""


@record
class Phase:
    """A stretch of steps with one mixture and an optimiser of its own."""

    name: str
    first_step: int
    """Of the whole schedule: demonstrations are numbered through it."""
    steps: int
    mixture: Mapping[str, float]
    """Weight of each kind of demonstration, as the course's ``walk`` knows them."""
    learning_rate: float
    """After ``warmup_steps``; falls linearly to a tenth over the last ``decay_steps``."""
    warmup_steps: int
    decay_steps: int

    def learning_rate_factor(self, step: int) -> float:
        """Share of the learning rate for the step after ``step`` steps of this phase."""
        left = (self.steps - step) / self.decay_steps
        return min(1.0, (step + 1) / self.warmup_steps) * max(0.1, min(1.0, left))


def kinds_of_step(phase: Phase, step: int) -> list[tuple[str, int]]:
    """The demonstrations of the bucket that begins with ``step`` of a phase: kind and number of each."""
    first = phase.first_step + step
    rng = Random(f"pretraining/{first}")
    kinds = rng.choices(list(phase.mixture), list(phase.mixture.values()), k=ROWS * BUCKET)
    return [(kind, first * ROWS + place) for place, kind in enumerate(kinds)]
