"""The office with a clock that measures the time from an agent's first observation to its first action."""

from collections.abc import Callable, Mapping

from upturn.environments.environment import Environment, Info, Step
from upturn.environments.office.kit import OfficeKit
from upturn.records import Action, Observation, Task


class TimedKit:
    """The office's kit, whose environments record seconds to the first action in ``first_seconds``, by task id."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: seconds."""
        kit = OfficeKit()
        self.name = kit.name
        self.families: Mapping[str, int] = kit.families
        self.verifier = kit.verifier
        self.tools = kit.tools
        self.tasks = kit.tasks
        self.first_seconds: dict[str, float] = {}
        """Missing for trajectories without an action."""
        self._kit, self._clock = kit, clock

    def environment(self, task: Task) -> "TimedEnvironment":
        """A new office with the clock."""
        return TimedEnvironment(self._kit.environment(task), self._clock, self.first_seconds)


class TimedEnvironment:
    """An office that records the seconds to the first action and is otherwise the same."""

    def __init__(self, office: Environment, clock: Callable[[], float], first_seconds: dict[str, float]) -> None:
        self.state, self.snapshot, self.restore = office.state, office.snapshot, office.restore
        self._office, self._clock, self._first_seconds = office, clock, first_seconds
        self._task_id, self._shown_at = "", 0.0

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Resets the office and starts the clock."""
        start = self._office.reset(task)
        self._task_id, self._shown_at = task.id, self._clock()
        return start

    def step(self, action: Action) -> Step:
        """The office's step; the task's first one stops the clock."""
        self._first_seconds.setdefault(self._task_id, self._clock() - self._shown_at)
        return self._office.step(action)
