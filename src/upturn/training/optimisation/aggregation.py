"""How token losses become one loss: what each token counts, and what the sum is divided by.

Both belong to whole rollouts, so that splitting a rollout into several rows changes nothing. No torch here.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, assert_never

import numpy as np

from upturn.training.advantage import ScoredGroup
from upturn.training.policy_settings import ObjectiveSettings
from upturn.training.row import FloatArray, written_count


class Sampled(NamedTuple):
    """What an iteration's loss is an average over, trained on or not."""

    rollouts: int
    """With at least one written token; one without has no loss to average."""
    tokens: int
    """Written ones."""


def sampled_of(groups: Iterable[ScoredGroup]) -> Sampled:
    """All attempts of the groups, those that could not be scored among them, as TRL has it: what an attempt counts
    must not depend on whether another one's judge crashed."""
    lengths = [written_count(member.trajectory) for group in groups for member in group.members]
    return Sampled(sum(length > 0 for length in lengths), sum(lengths))


def denominator(sampled: Sampled, settings: ObjectiveSettings) -> float:
    """What the sum of all scaled token losses of an iteration is divided by."""
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


def scales(lengths: Sequence[int], settings: ObjectiveSettings) -> list[FloatArray] | None:
    """For each row of one rollout, what its tokens count; None = 1 each.

    ``lengths``: written tokens of its rows.
    """
    if settings.aggregation != "sequence_mean":
        return None
    share = np.float32(1 / sum(lengths))
    return [np.full(length, share) for length in lengths]
