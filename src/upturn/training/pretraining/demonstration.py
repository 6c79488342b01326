"""Demonstrations to pre-train on: walks through tasks, as tokens of which some are the model's to write."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from upturn.models import CompactRenderer
from upturn.records import Action, Observation

Walk: TypeAlias = Sequence[tuple[Observation, Action]]
"""What somebody saw and what they did then, from the instruction on."""
PRETRAINING_STREAM = 7_000_000_000
"""Task numbers from here on are for pre-training only: runs whose seed is below 7,000 draw none."""


class Demonstration(NamedTuple):
    """Token ids of one walk and, for each, whether the model is to write it."""

    token_ids: list[int]
    is_written: list[bool]


def render(renderer: CompactRenderer, steps: Walk) -> Demonstration:
    """The walk as a model would have seen and written it."""
    token_ids: list[int] = []
    is_written: list[bool] = []
    for number, (observation, action) in enumerate(steps):
        seen = renderer.open(observation, "") if number == 0 else renderer.extend(observation)
        written = renderer.write(action)
        token_ids += [*seen, *written]
        is_written += [False] * len(seen) + [True] * len(written)
    return Demonstration(token_ids, is_written)
