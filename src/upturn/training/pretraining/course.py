"""What a shipped model is pre-trained on, and by which schedule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from upturn.training.pretraining.demonstration import Walk
from upturn.training.pretraining.phase import Phase

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class Course:
    """The making of one model."""

    model: str
    """Its name, by which it is loaded."""
    environment: str
    """Of which it learns."""
    families: Sequence[str]
    """That it learns, and is examined in."""
    data: str
    """What it is made from, for its card."""
    schedule: Sequence[Phase]
    walk: Callable[[str, int], Walk]
    """The demonstration of a kind and a number; the same arguments give the same one."""
    new_tokenizer: Callable[[], "Tokenizer"]
    vocabulary: int
    positions: int
    """Tokens in the longest text that it can read."""
    max_turns: int
    """In an exam."""
    max_tokens: int
    """That it may write in an attempt there."""
    max_action_tokens: int

    @property
    def steps(self) -> int:
        """Of the whole schedule."""
        return sum(phase.steps for phase in self.schedule)
