"""Multi-turn sampling as it is measured: what environments say, and how long each action gets. No torch here.

What environments answer depends on nothing that is written, and how long each action becomes is drawn beforehand:
so both sides of a comparison write the same number of tokens into the same conversations.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from upturn.errors import ConfigError
from upturn.records import JsonValue
from upturn.training import IntArray


@dataclass(frozen=True, slots=True)
class Conversations:
    """Many attempts at once; lengths in tokens. Raises ConfigError with everything that cannot be."""

    prompt_tokens: int
    tasks: int = 8
    attempts: int = 8
    """At each task; they share its prompt, as the attempts of a group do."""
    turns: int = 8
    action_tokens: tuple[int, int] = (20, 20)
    """Range, both ends included, that each action's length is drawn from; equal ends = all are equally long."""
    observation_tokens: int = 20
    vocabulary: int = 530
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks every field."""
        counts = ("prompt_tokens", "tasks", "attempts", "turns", "observation_tokens")
        problems = [
            f"{name} must be at least 1, got {getattr(self, name)!r}" for name in counts if getattr(self, name) < 1
        ]
        if not 1 <= self.action_tokens[0] <= self.action_tokens[1]:
            problems.append(
                f"action_tokens must be a range within the positive numbers, got {self.action_tokens!r}"
            )
        if self.vocabulary < 2:
            problems.append(f"vocabulary must be at least 2, got {self.vocabulary!r}")
        if problems:
            raise ConfigError(problems)

    @property
    def live(self) -> int:
        """E: attempts that are alive at the same time."""
        return self.tasks * self.attempts

    @property
    def context(self) -> int:
        """The most tokens that an attempt can come to, when each turn takes as long as the longest action."""
        return self.prompt_tokens + self.turns * (self.action_tokens[1] + self.observation_tokens)

    def prompts(self) -> IntArray:
        """``(E, P)``: attempt by attempt, those of a task side by side; no id is 0, which is left for padding."""
        drawn = self._rng("prompts").integers(1, self.vocabulary, (self.tasks, self.prompt_tokens))
        return np.repeat(drawn, self.attempts, axis=0)

    def observations(self) -> IntArray:
        """``(T, E, O)``: what stands after the action of each turn; the last turn's is never read."""
        shape = (self.turns, self.live, self.observation_tokens)
        return self._rng("observations").integers(1, self.vocabulary, shape)

    def lengths(self) -> IntArray:
        """``(T, E)``: tokens that each attempt writes in each turn."""
        low, high = self.action_tokens
        return self._rng("lengths").integers(low, high + 1, (self.turns, self.live))

    def settings(self) -> dict[str, JsonValue]:
        """As JSON, for ``read_conversations``."""
        return asdict(self) | {"action_tokens": list(self.action_tokens)}

    def _rng(self, what: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *what.encode()])


def read_conversations(settings: Mapping[str, Any]) -> Conversations:  # Any: JSON from our own parent
    """What ``Conversations.settings`` gave."""
    low, high = settings["action_tokens"]
    return Conversations(**(dict(settings) | {"action_tokens": (low, high)}))
