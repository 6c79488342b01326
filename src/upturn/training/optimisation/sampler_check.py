"""Checks that an engine sampled the tokens it returned, by rescoring a sample with our own weights.

A correct engine's log-probs equal ours up to rounding: within 1e-5 nats in float32; the shipped model in bfloat16
differs by 0.002 on average and by 0.11 at most (1,639 tokens of office work), larger models by more. Retokenised
ids, log-probs of other tokens, weights or temperatures, and altered prompts all appear as larger gaps. They are
well-formed, and training on them fails silently: the ratio of every such token is wrong. No torch here.

The sampled trajectories depend on their ids and a seed, not on where or when they were sampled.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from upturn.errors import ConfigError, TrainingError
from upturn.records import Trajectory
from upturn.training.row import FloatArray, TrainingRow, model_rows, written_by
from upturn.training.scorer import Scorer


@dataclass(frozen=True, slots=True)
class RescoringSettings:
    """Sample size and tolerances. Raises ConfigError with all invalid values."""

    trajectories: int = 8
    """Trajectories rescored per collection."""
    mean_gap: float = 0.05
    """Largest mean |Δ log p| per token of the sample, in nats: 25 times the shipped model's in bfloat16."""
    far_gap: float = 1.0
    """|Δ log p| from which a token counts as far off."""
    far_share: float = 0.001
    """Largest share of such tokens; in a small sample, a single one exceeds it."""

    def __post_init__(self) -> None:
        """Checks every field."""
        problems = [
            f"{name} must be positive, got {getattr(self, name)!r}"
            for name in ("trajectories", "mean_gap", "far_gap")
            if not getattr(self, name) > 0
        ]
        if not 0 <= self.far_share < 1:
            problems.append(f"far_share must be in [0, 1), got {self.far_share!r}")
        if problems:
            raise ConfigError(problems)


class Rescored(NamedTuple):
    """The result of rescoring."""

    tokens: int
    mean_gap: float
    """|Δ log p| per token, in nats; NaN = no token."""
    largest_gap: float
    far_share: float


def rescore(
    trajectories: Sequence[Trajectory],
    scorer: Scorer,
    *,
    version: str,
    seed: int,
    settings: RescoringSettings = RescoringSettings(),
) -> Rescored:
    """Compares recorded log-probs with those of ``scorer``, whose weights are named ``version``.

    They are those at temperature 1, or where an engine does not return these, those at the sampling temperature.

    Raises TrainingError when the trajectories come from other weights, and when the gaps exceed the tolerances:
    none of the collection should then be trained on. Trajectories without rows, and tokens that earlier weights
    wrote before a pause, are skipped.
    """
    sample = _sample([trajectory for trajectory in trajectories if trajectory.rows], settings.trajectories, seed)
    foreign = next((trajectory for trajectory in sample if trajectory.model_version != version), None)
    if foreign is not None:
        raise TrainingError(
            f"trajectory {foreign.id!r} was sampled with weights {foreign.model_version!r}, but would be scored "
            f"with {version!r}; score with the weights that sampled"
        )
    rows = [row for member in sample for row in model_rows(written_by(member, {version}))]
    if not rows:
        return Rescored(0, float("nan"), 0.0, 0.0)
    gaps = [_gaps(row, scored) for row, scored in zip(rows, scorer(rows), strict=True)]
    tokens = np.concatenate(gaps)
    far_share = float((tokens > settings.far_gap).mean())
    result = Rescored(len(tokens), float(tokens.mean()), float(tokens.max()), far_share)
    if not (result.mean_gap <= settings.mean_gap and result.far_share <= settings.far_share):
        raise TrainingError(_failure_message(rows, gaps, result, settings))
    return result


def _sample(trajectories: Sequence[Trajectory], count: int, seed: int) -> list[Trajectory]:
    """At most ``count`` trajectories, those with the smallest hash of seed and id."""

    def sort_key(trajectory: Trajectory) -> bytes:
        return hashlib.blake2b(f"{seed}/{trajectory.id}".encode(), digest_size=8).digest()

    return sorted(trajectories, key=sort_key)[:count]


def _gaps(row: TrainingRow, scored: FloatArray) -> FloatArray:
    """``(A,)``: |Δ log p|; NaN counts as infinity."""
    assert row.old_logprobs is not None  # policy rows have them
    gaps: FloatArray = np.abs(row.old_logprobs - scored)
    gaps[np.isnan(gaps)] = np.inf
    return gaps


def _failure_message(
    rows: Sequence[TrainingRow], gaps: Sequence[FloatArray], result: Rescored, settings: RescoringSettings
) -> str:
    worst = max(range(len(rows)), key=lambda index: float(gaps[index].max()))
    row, index = rows[worst], int(gaps[worst].argmax())
    position = int(row.positions[index])
    assert row.old_logprobs is not None
    return (
        f"the engine returns other tokens than it sampled, or log-probs of other weights: over {result.tokens} "
        f"rescored tokens, log-probs differ by {result.mean_gap:.3g} nats on average (allowed "
        f"{settings.mean_gap:g}) and {result.far_share:.2%} of them by more than {settings.far_gap:g} (allowed "
        f"{settings.far_share:.2%}). Worst is token {int(row.token_ids[position])} at {position} of trajectory "
        f"{row.trajectory_id!r}, by {float(gaps[worst][index]):.3g}. Let the engine return the ids that it sampled "
        "and log-probs of the kind that rollouts.logprobs states, at its current weights, without top-k, penalties "
        "or speculative shortcuts"
    )
