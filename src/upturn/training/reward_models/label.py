"""Targets of a process model: how likely success is after each turn. No torch here.

Each function gives one target per turn, in [0, 1]; None = unknown. After the last turn it is the outcome.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from upturn.errors import TrainingError
from upturn.records import Trajectory, record

LabelSource = Literal["outcome", "continuations", "potential"]
"""``outcome``: the trajectory's success, for every turn. ``continuations``: the share of continuations from the
state after the turn that succeed (Math-Shepherd, arXiv 2312.08935, its soft estimate). ``potential``: the
progress that the environment reports for that state."""
Targets: TypeAlias = tuple[float | None, ...]


@record
class LabelledTrajectory:
    """A trajectory with the targets of its turns."""

    trajectory: Trajectory
    targets: tuple[float | None, ...]
    is_success: bool


def outcome_targets(turns: int, *, is_success: bool) -> Targets:
    """Returns the outcome for every turn."""
    return (float(is_success),) * turns


def continuation_targets(successes: Sequence[Sequence[float]], *, is_success: bool) -> Targets:
    """``successes``: 1 or 0 of each continuation from the state *before* each turn; empty = not measured."""
    after = [sum(values) / len(values) if values else None for values in successes[1:]]
    return (*after, float(is_success))


def potential_targets(trajectory: Trajectory, *, is_success: bool) -> Targets:
    """Raises TrainingError for potentials outside [0, 1]."""
    after = tuple(turn.potential for turn in trajectory.turns[1:])
    for value in after:
        if value is not None and not 0 <= value <= 1:
            raise TrainingError(
                f"trajectory {trajectory.id!r} has the potential {value!r}; as a target it must be in [0, 1]"
            )
    return (*after, float(is_success))
