"""Scripted conversations for multi-turn sampling: prompts, observations, and the length of each action. No torch.

Observations do not depend on what is written, and action lengths are drawn beforehand, so that all implementations
write the same number of tokens into the same conversations.
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
    """E = tasks · group_size rollouts at once; lengths in tokens. Raises ConfigError with all invalid settings."""

    prompt_tokens: int
    tasks: int = 8
    group_size: int = 8
    """Rollouts per task, which share its prompt."""
    turns: int = 8
    action_tokens: tuple[int, int] = (20, 20)
    """Range of action lengths, both ends included."""
    observation_tokens: int = 20
    vocabulary: int = 530
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks every field."""
        counts = ("prompt_tokens", "tasks", "group_size", "turns", "observation_tokens")
        problems = [
            f"{name} must be at least 1, got {getattr(self, name)!r}" for name in counts if getattr(self, name) < 1
        ]
        if not 1 <= self.action_tokens[0] <= self.action_tokens[1]:
            problems.append(f"action_tokens must be a range of positive numbers, got {self.action_tokens!r}")
        if self.vocabulary < 2:
            problems.append(f"vocabulary must be at least 2, got {self.vocabulary!r}")
        if problems:
            raise ConfigError(problems)

    @property
    def rollouts(self) -> int:
        """E: rollouts that run at the same time."""
        return self.tasks * self.group_size

    @property
    def context(self) -> int:
        """Length of a rollout in which every action has the greatest length."""
        return self.prompt_tokens + self.turns * (self.action_tokens[1] + self.observation_tokens)

    def prompts(self) -> IntArray:
        """``(E, P)``: the rollouts of a task are adjacent; no id is 0, which is reserved for padding."""
        prompts = self._rng("prompts").integers(1, self.vocabulary, (self.tasks, self.prompt_tokens))
        return np.repeat(prompts, self.group_size, axis=0)

    def observations(self) -> IntArray:
        """``(T, E, O)``: what follows the action of each turn; the last turn's is never read."""
        shape = (self.turns, self.rollouts, self.observation_tokens)
        return self._rng("observations").integers(1, self.vocabulary, shape)

    def lengths(self) -> IntArray:
        """``(T, E)``: tokens that each rollout writes in each turn."""
        low, high = self.action_tokens
        return self._rng("lengths").integers(low, high + 1, (self.turns, self.rollouts))

    def settings(self) -> dict[str, JsonValue]:
        """As JSON, for ``parse_conversations``."""
        return asdict(self) | {"action_tokens": list(self.action_tokens)}

    def _rng(self, stream: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *stream.encode()])


def parse_conversations(settings: Mapping[str, Any]) -> Conversations:  # Any: JSON from our own parent process
    """The conversations with these ``settings()``."""
    low, high = settings["action_tokens"]
    return Conversations(**(dict(settings) | {"action_tokens": (low, high)}))
