"""Hints: what a kit knows of its tasks' answers, and environments that tell it to whoever attempts them.

For second attempts at what failed; what they write is learned from without the hint (``upturn.agents.hint``). Never
for exams or service: whoever is told the answer shows nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from upturn.environments.environment import Environment, Info, Step, blocks
from upturn.environments.kit import EnvironmentKit, tools_of
from upturn.records import Action, JsonValue, Observation, Split, Task


@runtime_checkable
class HintingKit(Protocol):
    """A kit that knows the answers of its tasks. Optional."""

    def hint(self, task: Task) -> str | None:
        """The answer in words that the environment's agents write; None = it knows none."""


def hint_of(kit: EnvironmentKit, task: Task) -> str | None:
    """The kit's hint at the task; None where it gives none."""
    return kit.hint(task) if isinstance(kit, HintingKit) else None


def hinted(observation: Observation, hint: str) -> Observation:
    """The observation with the hint on lines of its own before it."""
    return Observation(f"{hint}\n{observation.text}", observation.code)


class HintedEnvironment:
    """An environment whose first observation begins with a hint; in all else the one that it is made of."""

    def __init__(self, environment: Environment, hint: str) -> None:
        self.blocks = blocks(environment)
        self._environment = environment
        self._hint = hint

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """The environment's own beginning, with the hint before it."""
        observation, info = self._environment.reset(task)
        return hinted(observation, self._hint), info

    def step(self, action: Action) -> Step:
        """The environment's own."""
        return self._environment.step(action)

    def state(self) -> Mapping[str, JsonValue]:
        """The environment's own: a verifier sees nothing of the hint."""
        return self._environment.state()

    def snapshot(self) -> object:
        """The environment's own."""
        return self._environment.snapshot()

    def restore(self, snapshot: object) -> None:
        """Goes back to a snapshot of the environment."""
        self._environment.restore(snapshot)


class HintedKit:
    """A kit in whose environments hints are given."""

    def __init__(self, kit: EnvironmentKit, hints: Mapping[str, str]) -> None:
        """``hints`` by task id; tasks without one are given plainly."""
        self.name = kit.name
        self.families: Mapping[str, int] = kit.families
        self.verifier = kit.verifier
        self.tools = tools_of(kit)
        self._kit = kit
        self._hints = hints

    def environment(self, task: Task) -> Environment:
        """The kit's, with the task's hint."""
        environment, hint = self._kit.environment(task), self._hints.get(task.id)
        return environment if hint is None else HintedEnvironment(environment, hint)

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """The kit's."""
        return self._kit.tasks(seed=seed, split=split, families=families)
