"""Hints: a kit's answers to its tasks, and environments that put them into the prompt.

For retries of failed tasks; their trajectories are trained on without the hint (``upturn.agents.hint``). Never for
evaluation or service: success with the answer in the prompt shows nothing.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from upturn.environments.environment import Environment, Info, is_blocking
from upturn.environments.kit import EnvironmentKit, tools_of
from upturn.environments.programs import ProgramEnvironment
from upturn.records import Observation, Task


@runtime_checkable
class HintingKit(Protocol):
    """A kit with answers to its tasks. Optional."""

    def hint(self, task: Task) -> str | None:
        """The answer, written as agents of this environment write actions; None = no answer."""


def hint_of(kit: EnvironmentKit, task: Task) -> str | None:
    """The kit's hint for the task; None where it has none."""
    return kit.hint(task) if isinstance(kit, HintingKit) else None


def add_hint(observation: Observation, hint: str) -> Observation:
    """The observation with the hint on separate lines before it."""
    return Observation(f"{hint}\n{observation.text}", observation.code)


class HintedEnvironment:
    """An environment whose first observation starts with a hint. The verifier never sees the hint."""

    def __init__(self, environment: Environment, hint: str) -> None:
        self.blocks = is_blocking(environment)
        self.step, self.state = environment.step, environment.state
        self.snapshot, self.restore = environment.snapshot, environment.restore
        self._reset = environment.reset
        self._hint = hint

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Resets the wrapped environment and puts the hint before its observation."""
        observation, info = self._reset(task)
        return add_hint(observation, self._hint), info


class HintedProgramEnvironment(HintedEnvironment):
    """The same for an environment that programs end."""

    def __init__(self, environment: ProgramEnvironment, hint: str) -> None:
        super().__init__(environment, hint)
        self.folder, self.finish, self.close = environment.folder, environment.finish, environment.close


def hinted(environment: Environment, hint: str) -> Environment:
    """The environment with a hint before its first observation."""
    if isinstance(environment, ProgramEnvironment):
        return HintedProgramEnvironment(environment, hint)
    return HintedEnvironment(environment, hint)


class HintedKit:
    """A kit with hints in its environments."""

    def __init__(self, kit: EnvironmentKit, hints: Mapping[str, str]) -> None:
        """``hints`` by task id; other tasks have no hint."""
        self.name = kit.name
        self.families: Mapping[str, int] = kit.families
        self.verifier = kit.verifier
        self.tools = tools_of(kit)
        self.tasks = kit.tasks
        self._kit = kit
        self._hints = hints

    def environment(self, task: Task) -> Environment:
        """The kit's environment, with the task's hint."""
        environment, hint = self._kit.environment(task), self._hints.get(task.id)
        return environment if hint is None else hinted(environment, hint)
