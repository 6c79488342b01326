"""Aggregation of token losses into one loss: the scale of each token, and the denominator of the sum.

Both are defined per rollout, so splitting a rollout into several rows changes nothing. No torch here.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, assert_never

import numpy as np

from upturn.records import Outcome, Trajectory
from upturn.training.advantage import ScoredGroup
from upturn.training.policy_settings import ObjectiveSettings
from upturn.training.row import FloatArray, written_count

_LIMITS: frozenset[Outcome] = frozenset({"step_limit", "token_limit", "time_limit"})


class SampledCounts(NamedTuple):
    """Number of rollouts and tokens that an iteration's loss averages over, trained on or not."""

    rollouts: int
    """Rollouts with at least one written token."""
    tokens: int
    """Written tokens."""


def count_sampled(groups: Iterable[ScoredGroup], settings: ObjectiveSettings | None = None) -> SampledCounts:
    """Counts all rollouts of the groups, including unscorable ones, as TRL does: a rollout's weight must not depend
    on whether another one's verifier crashed. Rollouts that the settings mask do not count."""
    lengths = [
        written_count(member.trajectory)
        for group in groups
        for member in group.members
        if settings is None or not is_masked(member.trajectory, settings)
    ]
    return SampledCounts(sum(length > 0 for length in lengths), sum(lengths))


def is_masked(trajectory: Trajectory, settings: ObjectiveSettings) -> bool:
    """True for a rollout without loss because a limit ended it (``ObjectiveSettings.mask_truncated``)."""
    return settings.mask_truncated and trajectory.outcome in _LIMITS


def denominator(sampled: SampledCounts, settings: ObjectiveSettings) -> float:
    """The denominator of the sum of all scaled token losses of an iteration."""
    match settings.aggregation:
        case "token_mean":
            return float(sampled.tokens)
        case "sequence_mean":
            return float(sampled.rollouts)
        case "constant":
            assert settings.constant_tokens is not None
            return float(sampled.rollouts * settings.constant_tokens)
        case _:
            assert_never(settings.aggregation)


def token_scales(lengths: Sequence[int], settings: ObjectiveSettings) -> list[FloatArray] | None:
    """The scales of the written tokens of one rollout, by row; None = 1 each. ``lengths``: their number by row."""
    if settings.aggregation != "sequence_mean":
        return None
    share = np.float32(1 / sum(lengths))
    return [np.full(length, share) for length in lengths]
