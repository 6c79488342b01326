"""The contract of a scorer of log-probs: the trained model, or a frozen one. No torch here."""

from collections.abc import Sequence
from typing import Protocol

from upturn.training.row import FloatArray, TrainingRow


class Scorer(Protocol):
    """The log-probs under a set of weights; ``Trainer.score`` is one."""

    def __call__(self, rows: Sequence[TrainingRow], /) -> Sequence[FloatArray]:
        """``(A,)`` for each row, in order: log π of its written tokens at the row's temperature, without
        gradient."""
