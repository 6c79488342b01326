"""Whether an engine sampled the tokens that it returned: a sample of them is scored again with our own weights.

Tokens of an honest engine have our log-probs but for rounding: within 1e-5 nats in float32; the shipped model in
bfloat16 differs by 0.002 on average and by 0.11 at most (1,639 tokens of office work), larger ones by more. Ids
made anew from text, log-probs of other tokens or of other weights, a prompt that was changed on the way, log-probs
at another temperature: each shows as nats. Form alone cannot tell, and training on them is silent: the ratio of
every such token is wrong. No torch here.

Which trajectories are looked at depends on their ids and a seed, not on where or when they were sampled.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from upturn.errors import ConfigError, TrainingError
from upturn.records import Trajectory
from upturn.training.row import FloatArray, TrainingRow, policy_rows
from upturn.training.scorer import Scorer


@dataclass(frozen=True, slots=True)
class RescoringSettings:
    """How much is looked at, and what rounding explains. Raises ConfigError with everything that cannot be."""

    trajectories: int = 8
    """Of one collection."""
    mean_gap: float = 0.05
    """Largest mean |Δ log p| per token of the sample, in nats: 25 times the shipped model's in bfloat16."""
    far_gap: float = 1.0
    """|Δ log p| from which a token counts as another token."""
    far_share: float = 0.001
    """Largest share of such tokens; one alone in a smaller sample is one too many."""

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
    """What the second scoring found."""

    tokens: int
    mean_gap: float
    """|Δ log p| per token, in nats; NaN = no token was looked at."""
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
    """How far recorded log-probs lie from those of ``scorer``, whose weights are called ``version``.

    Raises TrainingError when the trajectories come from other weights than these, and when the gaps are larger than
    rounding explains: nothing of the collection should be trained on then. Attempts without rows are left out.
    """
    sample = _sample([trajectory for trajectory in trajectories if trajectory.rows], settings.trajectories, seed)
    foreign = next((each for each in sample if each.model_version != version), None)
    if foreign is not None:
        raise TrainingError(
            f"trajectory {foreign.id!r} was sampled with weights {foreign.model_version!r}, it would be scored "
            f"with {version!r}; score with the weights that sampled"
        )
    rows = [row for each in sample for row in policy_rows(each, [1.0] * len(each.turns))]
    if not rows:
        return Rescored(0, float("nan"), 0.0, 0.0)
    gaps = [_gaps(row, scored) for row, scored in zip(rows, scorer(rows), strict=True)]
    every = np.concatenate(gaps)
    found = Rescored(len(every), float(every.mean()), float(every.max()), float((every > settings.far_gap).mean()))
    if not (found.mean_gap <= settings.mean_gap and found.far_share <= settings.far_share):
        raise TrainingError(_refusal(rows, gaps, found, settings))
    return found


def _sample(trajectories: Sequence[Trajectory], count: int, seed: int) -> list[Trajectory]:
    """``count`` of them at most, those with the smallest hash of seed and id."""

    def place(trajectory: Trajectory) -> bytes:
        return hashlib.blake2b(f"{seed}/{trajectory.id}".encode(), digest_size=8).digest()

    return sorted(trajectories, key=place)[:count]


def _gaps(row: TrainingRow, scored: FloatArray) -> FloatArray:
    """``(A,)``: |Δ log p|; a score that is not finite counts as infinitely far."""
    assert row.old_logprobs is not None  # policy rows have them
    gaps: FloatArray = np.abs(row.old_logprobs - scored)
    gaps[np.isnan(gaps)] = np.inf
    return gaps


def _refusal(
    rows: Sequence[TrainingRow], gaps: Sequence[FloatArray], found: Rescored, settings: RescoringSettings
) -> str:
    worst = max(range(len(rows)), key=lambda index: float(gaps[index].max()))
    row, place = rows[worst], int(gaps[worst].argmax())
    position = int(row.positions[place])
    assert row.old_logprobs is not None
    return (
        f"the engine returns other tokens than it sampled, or log-probs of other weights: over {found.tokens} "
        f"tokens that were scored again, log-probs differ by {found.mean_gap:.3g} nats on average (allowed "
        f"{settings.mean_gap:g}) and {found.far_share:.2%} of them by more than {settings.far_gap:g} (allowed "
        f"{settings.far_share:.2%}). Worst is token {int(row.token_ids[position])} at {position} of trajectory "
        f"{row.trajectory_id!r}, by {float(gaps[worst][place]):.3g}. Let the engine return the ids that it sampled "
        "and raw log-probs, at its present weights, without top-k, penalties or speculative shortcuts"
    )
