"""Rollouts that follow a curriculum, as a ``Collect`` whose state is in checkpoints. No torch here."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from upturn.training.advantage import ScoredGroup
from upturn.training.data.curriculum import Curriculum, Portion
from upturn.training.stream import State


class SampleRequest(NamedTuple):
    """Tasks to sample."""

    iteration: int
    round_index: int
    """0 = the iteration's first round; from 1: further rounds of dynamic sampling."""
    portions: Sequence[Portion]


class CurriculumCollect:
    """A ``Collect`` of the tasks that a curriculum chooses; ``refill`` has the same shares."""

    def __init__(
        self,
        curriculum: Curriculum,
        sample_groups: Callable[[SampleRequest], Sequence[ScoredGroup]],
        tasks: int,
        *,
        pool_of: Callable[[ScoredGroup], str] = lambda group: group.task.family,
    ) -> None:
        """``sample_groups``: samples groups with the current weights. ``tasks``: per iteration."""
        self.curriculum = curriculum
        self._sample_groups = sample_groups
        self._tasks = tasks
        self._pool_of = pool_of

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        """Returns the iteration's groups."""
        self.curriculum.start(iteration)
        return self.refill(iteration, 0)

    def refill(self, iteration: int, round_index: int, /) -> Sequence[ScoredGroup]:
        """Returns the groups of a round of dynamic sampling, with as many tasks again."""
        portions = self.curriculum.portions(self._tasks, round_index)
        groups = self._sample_groups(SampleRequest(iteration, round_index, portions))
        self.curriculum.observe(groups, self._pool_of)
        return groups

    def state(self) -> State:
        """Returns the curriculum's state."""
        return self.curriculum.state()

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``."""
        self.curriculum.load_state(state)

    def metrics(self) -> Mapping[str, float]:
        """Returns the curriculum's metrics, including the iteration's outcomes."""
        return self.curriculum.metrics()

    def identity(self) -> Mapping[str, object]:
        """Returns the curriculum's identity and the number of tasks."""
        return {**self.curriculum.identity(), "curriculum tasks": self._tasks}
