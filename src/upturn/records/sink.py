"""The contract between training and the pool: where finished rollouts are stored."""

from collections.abc import Sequence
from typing import Protocol

from upturn.records.evaluation import Evaluation
from upturn.records.task import Task
from upturn.records.trajectory import Trajectory


class TrajectorySink(Protocol):
    """Stores finished rollouts; training knows nothing else of the pool.

    Appending the same (run, iteration) again is a no-op: a resumed run repeats the rollouts it lost.
    """

    def append(
        self,
        run: str,
        iteration: int,
        finished: Sequence[tuple[Task, Trajectory, Evaluation]],
    ) -> None:
        """Durable when it returns; all of ``finished`` or nothing."""
