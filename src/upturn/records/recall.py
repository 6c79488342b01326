"""The interface through which agents ask for similar past experience."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from upturn.records.task import Task
from upturn.records.trajectory import Trajectory


class Recalled(NamedTuple):
    """A success at a similar task."""

    task: Task
    trajectory: Trajectory
    """Without its tokens."""
    similarity: float
    """Cosine of the two instructions' embeddings, at most 1."""


class Recall(Protocol):
    """Finds past successes; the only part of the pool that agents use."""

    def similar(self, task: Task, k: int) -> Sequence[Recalled]:
        """Returns at most k successes of the task's tenant at other tasks, the most similar first.

        Never of a task with an equal instruction, of a held-out task, or from the task's future.
        """
