"""Recorded multi-turn rollouts of a fictional agent, the input of every update that is measured. No torch.

Rollouts of a group share their prompt. By default they share nothing else, so that a comparison does not favour
implementations that compute shared turns once. Tokens are uniform over the vocabulary: the cost of an update does
not depend on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from upturn.errors import ConfigError
from upturn.training import FloatArray, IntArray, TrainingRow

_NEAR, _FAR = (0.0, 0.15), (0.35, 0.6)
"""Ranges of |log ratio| for nine tokens in ten, and for the tenth. The clip binds at log 0.8 = −0.22 and
log 1.28 = 0.25, between the two, so that rounding never decides whether a token is clipped."""
_FAR_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class WorkloadSettings:
    """Lengths in tokens; ranges include both ends. Raises ConfigError with all invalid settings."""

    prompt_tokens: int = 1_000
    group_size: int = 8
    turns: tuple[int, int] = (3, 6)
    action_tokens: tuple[int, int] = (30, 60)
    observation_tokens: tuple[int, int] = (150, 300)
    shared_turns: int = 0
    """Leading turns, with their observations, that are the same in all rollouts."""
    vocabulary: int = 4_096
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks every field."""
        ranges = {
            "turns": self.turns,
            "action_tokens": self.action_tokens,
            "observation_tokens": self.observation_tokens,
        }
        problems = [
            f"{name} must be a range of positive numbers, got {bounds!r}"
            for name, bounds in ranges.items()
            if not 1 <= bounds[0] <= bounds[1]
        ]
        if self.prompt_tokens < 1 or self.group_size < 2:
            problems.append(
                "prompt_tokens must be at least 1 and group_size at least 2, got "
                f"{self.prompt_tokens!r} and {self.group_size!r}"
            )
        if not 0 <= self.shared_turns < self.turns[0]:
            problems.append(
                f"shared_turns must be below the fewest turns ({self.turns[0]}), got {self.shared_turns!r}"
            )
        if self.vocabulary < 2:
            problems.append(f"vocabulary must be at least 2, got {self.vocabulary!r}")
        if problems:
            raise ConfigError(problems)


class Rollout(NamedTuple):
    """One recorded rollout of L tokens, A of them written by the agent."""

    token_ids: IntArray
    """``(L,)``, none of them 0: that id is reserved for padding."""
    positions: IntArray
    """``(A,)``: positions of the written tokens."""
    log_ratios: FloatArray
    """``(A,)``: log π/π_old in the update; the sampler's log-probs are the model's minus these."""
    reward: float


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """One group of rollouts."""

    settings: WorkloadSettings
    rollouts: tuple[Rollout, ...]

    @property
    def advantages(self) -> tuple[float, ...]:
        """Each rollout's reward minus the mean, in float32 as in a trainer."""
        rewards = np.array([rollout.reward for rollout in self.rollouts], dtype=np.float32)
        return tuple(float(value) for value in rewards - rewards.mean())

    @property
    def written_tokens(self) -> int:
        """Tokens that the agent wrote in all rollouts."""
        return sum(len(rollout.positions) for rollout in self.rollouts)

    @property
    def logical_tokens(self) -> int:
        """Tokens of all rollouts, the prompt counted in each."""
        return sum(len(rollout.token_ids) for rollout in self.rollouts)

    @property
    def padded_tokens(self) -> int:
        """Tokens of a padded batch of all rollouts."""
        return len(self.rollouts) * max(len(rollout.token_ids) for rollout in self.rollouts)


def make_workload(settings: WorkloadSettings) -> Workload:
    """The group that the settings describe; equal settings give equal rollouts."""
    rng = np.random.default_rng(settings.seed)
    prompt = _draw_tokens(rng, settings, (settings.prompt_tokens, settings.prompt_tokens))
    shared = [_draw_turn(rng, settings) for _ in range(settings.shared_turns)]
    return Workload(
        settings, tuple(_draw_rollout(rng, settings, prompt, shared) for _ in range(settings.group_size))
    )


def training_rows(workload: Workload, model_logprobs: FloatArray) -> tuple[TrainingRow, ...]:
    """The rollouts as the rows that an algorithm passes to the trainer.

    ``model_logprobs``: ``(ΣA,)``, the model's log-probs of the written tokens, rollout by rollout. They are also
    the rows' ``reference_logprobs``, so that an objective can measure the distance of a computation from them.
    """
    rows, start = [], 0
    for index, (rollout, advantage) in enumerate(zip(workload.rollouts, workload.advantages, strict=True)):
        count = len(rollout.positions)
        logprobs = model_logprobs[start : start + count]
        start += count
        rows.append(
            TrainingRow(
                f"attempt-{index}",
                rollout.token_ids,
                rollout.positions,
                np.full(count, advantage, dtype=np.float32),
                logprobs - rollout.log_ratios,
                reference_logprobs=logprobs,
            )
        )
    return tuple(rows)


class _Turn(NamedTuple):
    action: IntArray
    observation: IntArray


def _draw_turn(rng: np.random.Generator, settings: WorkloadSettings) -> _Turn:
    action = _draw_tokens(rng, settings, settings.action_tokens)
    return _Turn(action, _draw_tokens(rng, settings, settings.observation_tokens))


def _draw_rollout(
    rng: np.random.Generator, settings: WorkloadSettings, prompt: IntArray, shared: Sequence[_Turn]
) -> Rollout:
    """The last turn ends with its action; its observation is never read."""
    count = int(rng.integers(settings.turns[0], settings.turns[1] + 1))
    turns = [*shared, *(_draw_turn(rng, settings) for _ in range(count - len(shared)))]
    parts, positions, length = [prompt], [], len(prompt)
    for index, turn in enumerate(turns):
        parts.append(turn.action)
        positions.append(np.arange(length, length + len(turn.action)))
        length += len(turn.action)
        if index < count - 1:
            parts.append(turn.observation)
            length += len(turn.observation)
    written = np.concatenate(positions)
    log_ratios = _draw_log_ratios(rng, len(written))
    return Rollout(np.concatenate(parts), written, log_ratios, float(rng.integers(0, 101)) / 100)


def _draw_tokens(rng: np.random.Generator, settings: WorkloadSettings, lengths: tuple[int, int]) -> IntArray:
    count = int(rng.integers(lengths[0], lengths[1] + 1))
    return rng.integers(1, settings.vocabulary, size=count, dtype=np.int64)


def _draw_log_ratios(rng: np.random.Generator, count: int) -> FloatArray:
    is_far = rng.random(count) < _FAR_SHARE
    size = np.where(is_far, rng.uniform(*_FAR, count), rng.uniform(*_NEAR, count))
    signed: FloatArray = (size * rng.choice([-1.0, 1.0], count)).astype(np.float32)
    return signed
