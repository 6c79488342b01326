"""How token losses become one loss: what each token counts, and what the sum is divided by.

Both belong to whole rollouts, so that splitting a rollout into several rows changes nothing. No torch here.
"""

from collections.abc import Sequence
from typing import NamedTuple, assert_never

import numpy as np

from upturn.training.policy_settings import ObjectiveSettings
from upturn.training.row import FloatArray


class Sampled(NamedTuple):
    """What an iteration's loss is an average over, trained on or not."""

    rollouts: int
    """With at least one written token; one without has no loss to average."""
    tokens: int
    """Written ones."""


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
