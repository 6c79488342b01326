"""Held-out tasks of an office's families beside the frozen suites: as many as a rare violation needs to be seen."""

from collections.abc import Sequence

from upturn.environments import EnvironmentKit
from upturn.loop.evaluation.evaluate import evaluation_tasks
from upturn.records import Task

HOLDOUT = "heldout"
"""What they are called where suites have names."""
_SEED_OFFSET = 40_000
"""So that no task is in a held-out evaluation of the same seed."""


def holdout(kit: EnvironmentKit, families: Sequence[str], count: int, *, seed: int) -> list[Task]:
    """At least ``count`` tasks, each family as often as the others; the same for the same seed and families."""
    return evaluation_tasks(kit, families, count, seed=seed + _SEED_OFFSET, split="heldout")
