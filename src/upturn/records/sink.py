"""The interface through which training stores rollouts."""

from collections.abc import Sequence
from typing import Protocol

from upturn.records.evaluation import Evaluation
from upturn.records.task import Task
from upturn.records.trajectory import Trajectory


class TrajectorySink(Protocol):
    """Stores finished rollouts; the only part of the pool that training uses.

    Appending the same (run, iteration) again is a no-op: a resumed run repeats rollouts.
    """

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        """Stores all of ``finished`` or nothing; durable when it returns."""
