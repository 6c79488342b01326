"""A recipe: the data and the schedule that a shipped model is pre-trained with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from upturn.records import record
from upturn.training.pretraining.demonstration import Demonstration

if TYPE_CHECKING:
    from tokenizers import Tokenizer

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
    """Weight of each kind of demonstration."""
    learning_rate: float
    """After ``warmup_steps``; falls linearly to a tenth over the last ``decay_steps``."""
    warmup_steps: int
    decay_steps: int

    def learning_rate_factor(self, step: int) -> float:
        """Share of the learning rate for the step after ``step`` steps of this phase."""
        remaining = (self.steps - step) / self.decay_steps
        return min(1.0, (step + 1) / self.warmup_steps) * max(0.1, min(1.0, remaining))

    def bucket_kinds(self, step: int) -> list[tuple[str, int]]:
        """Kind and number of each demonstration in the bucket that starts with ``step`` of this phase."""
        first = self.first_step + step
        rng = Random(f"pretraining/{first}")
        kinds = rng.choices(list(self.mixture), list(self.mixture.values()), k=ROWS * BUCKET)
        return [(kind, first * ROWS + index) for index, kind in enumerate(kinds)]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one model is made."""

    model: str
    """The model's name."""
    environment: str
    """The environment it is trained on."""
    families: Sequence[str]
    """The task families it is trained and evaluated on."""
    data: str
    """Description of the training data, for the model card."""
    schedule: Sequence[Phase]
    demonstration: Callable[[str, int], Demonstration]
    """The demonstration of a kind and number; a pure function."""
    new_tokenizer: Callable[[], "Tokenizer"]
    vocabulary: int
    positions: int
    """The longest context in tokens."""
    max_turns: int
    """Turns of an evaluation's rollout."""
    max_tokens: int
    """Context limit of an evaluation's rollout."""
    max_action_tokens: int

    @property
    def steps(self) -> int:
        """Steps of the whole schedule."""
        return sum(phase.steps for phase in self.schedule)
