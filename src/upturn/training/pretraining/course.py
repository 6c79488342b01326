"""A course: the data and schedule that a shipped model is pre-trained with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from upturn.training.pretraining.demonstration import Walk
from upturn.training.pretraining.phase import Phase

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class Course:
    """How one model is made."""

    model: str
    """The model's name."""
    environment: str
    """The environment it is trained on."""
    families: Sequence[str]
    """The task families it is trained and evaluated on."""
    data: str
    """Description of the training data, for its card."""
    schedule: Sequence[Phase]
    walk: Callable[[str, int], Walk]
    """The demonstration of a kind and number; a pure function."""
    new_tokenizer: Callable[[], "Tokenizer"]
    vocabulary: int
    positions: int
    """The longest context in tokens."""
    max_turns: int
    """In evaluations."""
    max_tokens: int
    """Context limit of an evaluation's rollout."""
    max_action_tokens: int

    @property
    def steps(self) -> int:
        """Steps of the whole schedule."""
        return sum(phase.steps for phase in self.schedule)
