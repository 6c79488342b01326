"""Who can say how likely written tokens are: the model in training, or one that stays as it is. No torch here."""

from collections.abc import Sequence
from typing import Protocol

from upturn.training.row import FloatArray, TrainingRow


class Scorer(Protocol):
    """The log-probs of a fixed set of weights; ``Trainer.score`` is one."""

    def __call__(self, rows: Sequence[TrainingRow], /) -> Sequence[FloatArray]:
        """``(A,)`` for each row, in their order: log π of its written tokens at temperature 1, without gradient."""
