"""Recorded multi-turn rollouts of a made-up agent: what both sides of an update comparison train on.

Attempts of a group share their prompt. By default they share nothing else, so that a comparison does not flatter
whoever computes shared turns once. Tokens are uniform over the vocabulary: what an update costs does not depend on
them. No torch here.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from upturn.errors import ConfigError
from upturn.training import FloatArray, IntArray, TrainingRow

_NEAR, _FAR = (0.0, 0.15), (0.35, 0.6)
"""Where |log ratio| lies for nine tokens in ten, and for the tenth. The clip binds at log 0.8 = −0.22 and
log 1.28 = 0.25, between the two, so that rounding decides for no token whether it is clipped."""
_FAR_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class WorkloadSettings:
    """Lengths in tokens; ranges include both ends. Raises ConfigError with everything that cannot be."""

    prompt_tokens: int = 1_000
    attempts: int = 8
    """Of the one group."""
    turns: tuple[int, int] = (3, 6)
    action_tokens: tuple[int, int] = (30, 60)
    observation_tokens: tuple[int, int] = (150, 300)
    shared_turns: int = 0
    """First turns, with their observations, that are the same in all attempts."""
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
            f"{name} must be a range within the positive numbers, got {found!r}"
            for name, found in ranges.items()
            if not 1 <= found[0] <= found[1]
        ]
        if self.prompt_tokens < 1 or self.attempts < 2:
            problems.append(
                "prompt_tokens must be at least 1 and attempts at least 2, got "
                f"{self.prompt_tokens!r} and {self.attempts!r}"
            )
        if not 0 <= self.shared_turns < self.turns[0]:
            problems.append(
                f"shared_turns must be below the fewest turns ({self.turns[0]}), got {self.shared_turns!r}"
            )
        if self.vocabulary < 2:
            problems.append(f"vocabulary must be at least 2, got {self.vocabulary!r}")
        if problems:
            raise ConfigError(problems)


class Attempt(NamedTuple):
    """One recorded rollout of L tokens, A of them written."""

    token_ids: IntArray
    """``(L,)``, none of them 0: that id is left for padding."""
    positions: IntArray
    """``(A,)``: where the written tokens stand."""
    log_ratios: FloatArray
    """``(A,)``: log π/π_old that the update shall meet; the sampler's log-probs are the model's own minus these."""
    reward: float


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """One group."""

    settings: WorkloadSettings
    attempts: tuple[Attempt, ...]

    @property
    def advantages(self) -> tuple[float, ...]:
        """Each attempt's reward minus the mean, in float32 as a trainer has it."""
        rewards = np.array([attempt.reward for attempt in self.attempts], dtype=np.float32)
        return tuple(float(value) for value in rewards - rewards.mean())

    @property
    def written_tokens(self) -> int:
        """Of all attempts."""
        return sum(len(attempt.positions) for attempt in self.attempts)

    @property
    def logical_tokens(self) -> int:
        """Of all attempts, the prompt counted in each."""
        return sum(len(attempt.token_ids) for attempt in self.attempts)

    @property
    def padded_tokens(self) -> int:
        """Of a dense that holds all attempts."""
        return len(self.attempts) * max(len(attempt.token_ids) for attempt in self.attempts)


def make_workload(settings: WorkloadSettings) -> Workload:
    """Equal settings, equal rollouts."""
    rng = np.random.default_rng(settings.seed)
    prompt = _tokens(rng, settings, (settings.prompt_tokens, settings.prompt_tokens))
    shared = [_turn(rng, settings) for _ in range(settings.shared_turns)]
    return Workload(settings, tuple(_attempt(rng, settings, prompt, shared) for _ in range(settings.attempts)))


def training_rows(workload: Workload, own_logprobs: FloatArray) -> tuple[TrainingRow, ...]:
    """The attempts as the library gives them to its trainer.

    ``own_logprobs``: ``(ΣA,)``, what the model gives to the written tokens, attempt by attempt. They also stand in
    the rows as ``reference_logprobs``, so that an objective can tell how far a computation is from them.
    """
    rows, start = [], 0
    for index, (attempt, advantage) in enumerate(zip(workload.attempts, workload.advantages, strict=True)):
        count = len(attempt.positions)
        own = own_logprobs[start : start + count]
        start += count
        rows.append(
            TrainingRow(
                f"attempt-{index}",
                attempt.token_ids,
                attempt.positions,
                np.full(count, advantage, dtype=np.float32),
                own - attempt.log_ratios,
                reference_logprobs=own,
            )
        )
    return tuple(rows)


def save_workload(workload: Workload, path: Path) -> None:
    """Writes one ``.npz``."""
    attempts = workload.attempts
    np.savez(
        path,
        settings=np.array(json.dumps(asdict(workload.settings))),
        lengths=np.array([len(attempt.token_ids) for attempt in attempts]),
        counts=np.array([len(attempt.positions) for attempt in attempts]),
        token_ids=np.concatenate([attempt.token_ids for attempt in attempts]),
        positions=np.concatenate([attempt.positions for attempt in attempts]),
        log_ratios=np.concatenate([attempt.log_ratios for attempt in attempts]),
        rewards=np.array([attempt.reward for attempt in attempts]),
    )


def load_workload(path: Path) -> Workload:
    """What ``save_workload`` wrote."""
    with np.load(path) as stored:
        fields = json.loads(str(stored["settings"]))
        tokens = np.split(stored["token_ids"], np.cumsum(stored["lengths"])[:-1])
        cuts = np.cumsum(stored["counts"])[:-1]
        positions = np.split(stored["positions"], cuts)
        log_ratios = np.split(stored["log_ratios"], cuts)
        rewards = stored["rewards"].tolist()
    ranges = {name: (value[0], value[1]) for name, value in fields.items() if isinstance(value, list)}
    settings = WorkloadSettings(**(fields | ranges))
    return Workload(
        settings, tuple(Attempt(*parts) for parts in zip(tokens, positions, log_ratios, rewards, strict=True))
    )


class _Turn(NamedTuple):
    action: IntArray
    observation: IntArray


def _turn(rng: np.random.Generator, settings: WorkloadSettings) -> _Turn:
    return _Turn(
        _tokens(rng, settings, settings.action_tokens), _tokens(rng, settings, settings.observation_tokens)
    )


def _attempt(
    rng: np.random.Generator, settings: WorkloadSettings, prompt: IntArray, shared: Sequence[_Turn]
) -> Attempt:
    """The last turn ends with its action: what it led to is read by nobody."""
    count = int(rng.integers(settings.turns[0], settings.turns[1] + 1))
    turns = [*shared, *(_turn(rng, settings) for _ in range(count - len(shared)))]
    parts, positions, length = [prompt], [], len(prompt)
    for index, turn in enumerate(turns):
        parts.append(turn.action)
        positions.append(np.arange(length, length + len(turn.action)))
        length += len(turn.action)
        if index < count - 1:
            parts.append(turn.observation)
            length += len(turn.observation)
    written = np.concatenate(positions)
    return Attempt(
        np.concatenate(parts), written, _log_ratios(rng, len(written)), float(rng.integers(0, 101)) / 100
    )


def _tokens(rng: np.random.Generator, settings: WorkloadSettings, lengths: tuple[int, int]) -> IntArray:
    count = int(rng.integers(lengths[0], lengths[1] + 1))
    return rng.integers(1, settings.vocabulary, size=count, dtype=np.int64)


def _log_ratios(rng: np.random.Generator, count: int) -> FloatArray:
    is_far = rng.random(count) < _FAR_SHARE
    size = np.where(is_far, rng.uniform(*_FAR, count), rng.uniform(*_NEAR, count))
    signed: FloatArray = (size * rng.choice([-1.0, 1.0], count)).astype(np.float32)
    return signed
