"""Practice that follows a curriculum, as a ``Collect`` whose state a checkpoint holds. No torch here."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from upturn.training.advantage import ScoredGroup
from upturn.training.data.curriculum import Curriculum, Portion
from upturn.training.stream import State


class Sample(NamedTuple):
    """What is to be sampled."""

    iteration: int
    attempt: int
    """0 = the iteration's own tasks; from 1: further rounds of dynamic sampling."""
    portions: Sequence[Portion]


class CurriculumCollect:
    """A ``Collect`` that samples what a curriculum chooses; its ``refill`` goes on with the same shares.

    Holds the curriculum's state, so that a checkpoint does.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        sample_groups: Callable[[Sample], Sequence[ScoredGroup]],
        tasks: int,
        *,
        pool_of: Callable[[ScoredGroup], str] = lambda group: group.task.family,
    ) -> None:
        """``sample_groups``: groups of attempts at these tasks with the present weights. ``tasks``: of an
        iteration."""
        self.curriculum = curriculum
        self._sample_groups = sample_groups
        self._tasks = tasks
        self._pool_of = pool_of

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        """The iteration's groups."""
        self.curriculum.begin(iteration)
        return self._sampled(iteration, 0)

    def refill(self, iteration: int, attempt: int, /) -> Sequence[ScoredGroup]:
        """As many again, for a round of dynamic sampling."""
        return self._sampled(iteration, attempt)

    def state(self) -> State:
        """The curriculum's."""
        return self.curriculum.state()

    def load_state(self, state: State) -> None:
        """Goes back to what ``state`` gave."""
        self.curriculum.load_state(state)

    def metrics(self) -> Mapping[str, float]:
        """The curriculum's, after the iteration's outcomes."""
        return self.curriculum.metrics()

    def identity(self) -> Mapping[str, object]:
        """What decides the tasks beside the seed of the run."""
        return {**self.curriculum.identity(), "curriculum tasks": self._tasks}

    def _sampled(self, iteration: int, attempt: int) -> Sequence[ScoredGroup]:
        groups = self._sample_groups(Sample(iteration, attempt, self.curriculum.portions(self._tasks, attempt)))
        self.curriculum.observe(groups, self._pool_of)
        return groups
