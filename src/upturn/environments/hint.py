"""Hints: a kit's answers to its tasks, and environments that put them into the prompt.

For retries of failed tasks; their trajectories are trained on without the hint (``upturn.agents.hint``). Never for
evaluation or service: success with the answer in the prompt shows nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from upturn.environments.environment import Environment, Info, Step, blocks
from upturn.environments.kit import EnvironmentKit, tools_of
from upturn.records import Action, JsonValue, Observation, Split, Task


@runtime_checkable
class HintingKit(Protocol):
    """A kit with answers to its tasks. Optional."""

    def hint(self, task: Task) -> str | None:
        """The answer in the words that agents of this environment write; None = no answer."""


def hint_of(kit: EnvironmentKit, task: Task) -> str | None:
    """The kit's hint for the task; None where it has none."""
    return kit.hint(task) if isinstance(kit, HintingKit) else None


def hinted(observation: Observation, hint: str) -> Observation:
    """The observation with the hint on separate lines before it."""
    return Observation(f"{hint}\n{observation.text}", observation.code)


class HintedEnvironment:
    """Wraps an environment so that its first observation begins with a hint."""

    def __init__(self, environment: Environment, hint: str) -> None:
        self.blocks = blocks(environment)
        self._environment = environment
        self._hint = hint

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """The wrapped environment's ``reset``, with the hint before the observation."""
        observation, info = self._environment.reset(task)
        return hinted(observation, self._hint), info

    def step(self, action: Action) -> Step:
        """As the wrapped environment."""
        return self._environment.step(action)

    def state(self) -> Mapping[str, JsonValue]:
        """As the wrapped environment: a verifier never sees the hint."""
        return self._environment.state()

    def snapshot(self) -> object:
        """As the wrapped environment."""
        return self._environment.snapshot()

    def restore(self, snapshot: object) -> None:
        """As the wrapped environment."""
        self._environment.restore(snapshot)


class HintedKit:
    """A kit with hints in its environments."""

    def __init__(self, kit: EnvironmentKit, hints: Mapping[str, str]) -> None:
        """``hints`` by task id; other tasks have no hint."""
        self.name = kit.name
        self.families: Mapping[str, int] = kit.families
        self.verifier = kit.verifier
        self.tools = tools_of(kit)
        self._kit = kit
        self._hints = hints

    def environment(self, task: Task) -> Environment:
        """The kit's environment, with the task's hint."""
        environment, hint = self._kit.environment(task), self._hints.get(task.id)
        return environment if hint is None else HintedEnvironment(environment, hint)

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """The kit's tasks."""
        return self._kit.tasks(seed=seed, split=split, families=families)
