"""What crosses between the two wings as a contract: where finished rollouts go."""

from collections.abc import Sequence
from typing import Protocol

from upturn.records.evaluation import Evaluation
from upturn.records.task import Task
from upturn.records.trajectory import Trajectory


class TrajectorySink(Protocol):
    """Takes finished rollouts without letting training know the pool.

    Appending the same (run, iteration) again is a no-op: a resumed run re-appends what it re-makes.
    """

    def append(
        self,
        run: str,
        iteration: int,
        finished: Sequence[tuple[Task, Trajectory, Evaluation]],
    ) -> None:
        """Durable when it returns; all of ``finished`` or nothing."""
