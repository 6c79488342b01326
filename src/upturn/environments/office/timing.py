"""The office with a clock that measures the time from an agent's first observation to its first action."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from upturn.environments.environment import Environment, Info, Step
from upturn.environments.office.environment import WrappedOffice
from upturn.environments.office.kit import OfficeKit
from upturn.records import Action, Observation, Split, Task


class TimedKit:
    """The office's kit, whose environments note seconds to the first action in ``first_seconds``, by task id."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: seconds."""
        kit = OfficeKit()
        self.name = kit.name
        self.families: Mapping[str, int] = kit.families
        self.verifier = kit.verifier
        self.tools = kit.tools
        self.first_seconds: dict[str, float] = {}
        """Missing for trajectories without an action."""
        self._kit, self._clock = kit, clock

    def environment(self, task: Task) -> "TimedEnvironment":
        """A new office with the clock."""
        return TimedEnvironment(self._kit.environment(task), self._clock, self.first_seconds)

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """The office's."""
        return self._kit.tasks(seed=seed, split=split, families=families)


class TimedEnvironment(WrappedOffice):
    """An office that notes the seconds to the first action and is otherwise the same."""

    def __init__(self, office: Environment, clock: Callable[[], float], first_seconds: dict[str, float]) -> None:
        super().__init__(office)
        self._clock, self._first_seconds = clock, first_seconds
        self._task_id, self._shown_at = "", 0.0

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """As the office; starts the clock."""
        start = self._office.reset(task)
        self._task_id, self._shown_at = task.id, self._clock()
        return start

    def step(self, action: Action) -> Step:
        """As the office."""
        self._first_seconds.setdefault(self._task_id, self._clock() - self._shown_at)
        return self._office.step(action)
