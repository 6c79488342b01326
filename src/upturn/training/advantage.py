"""Advantages: the rewards of a group become one number per turn.

Only what is comparable is compared: the trajectories of one task. Unscorable trajectories (a judge crashed, a
reward is missing) stay out of the baseline and get 0, which is not the same as a reward of 0. No torch here.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from upturn.errors import TrainingError
from upturn.records import Task, Trajectory, record
from upturn.training.settings import AdvantageSettings

_NO_DIFFERENCE = 1e-9
"""Returns closer than this, relative to their size, are the same number computed in another order."""
_STD_FLOOR = 1e-6
"""Added to the standard deviation, as verl does; matters only for returns that hardly differ."""


@record
class ScoredTrajectory:
    """An attempt with what its turns earned."""

    trajectory: Trajectory
    turn_rewards: tuple[float, ...] | None
    """One per turn. None, or NaN in any turn = unscorable: excluded from the baseline, advantage 0, counted."""

    @property
    def is_scorable(self) -> bool:
        """False when the reward, or a part of it, is missing."""
        return self.turn_rewards is not None and not any(math.isnan(reward) for reward in self.turn_rewards)


@record
class ScoredGroup:
    """Attempts at one task."""

    task: Task
    members: tuple[ScoredTrajectory, ...]


class GroupAdvantages(NamedTuple):
    """What one group teaches."""

    turns: tuple[tuple[float, ...], ...]
    """By member, then by turn. All 0 when the group is not informative."""
    is_informative: bool
    """False: fewer than two scorable members, or all of their returns are equal."""
    returns: tuple[float | None, ...]
    """Each member's discounted return from its first turn; None = unscorable."""


class Advantage(Protocol):
    """Turns the rewards of a group into one number per turn."""

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """Depends on this group only; raises TrainingError for rewards that do not fit the turns."""


class GroupRelative:
    """Discounted return-to-go of each turn, minus the group's mean return (or the mean of the *other* members).

    With γ = 1 and one reward at the end this is the centred advantage r − mean(r) of Dr. GRPO (arXiv 2503.20783),
    with ``leave_one_out`` that of RLOO (arXiv 2402.14740), with ``scale="std"`` that of GRPO (arXiv 2402.03300,
    sample standard deviation). Departure: a group of one gives 0, never the raw reward.
    """

    def __init__(self, settings: AdvantageSettings | None = None) -> None:
        self.settings = settings or AdvantageSettings()

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member."""
        to_go = [_returns_to_go(member, self.settings.gamma) for member in group.members]
        returns = tuple(None if turns is None else (turns[0] if turns else 0.0) for turns in to_go)
        scorable = [value for value in returns if value is not None]
        if not _differ(scorable):
            silent = tuple((0.0,) * len(member.trajectory.turns) for member in group.members)
            return GroupAdvantages(silent, is_informative=False, returns=returns)
        divisor = _sample_std(scorable) + _STD_FLOOR if self.settings.scale == "std" else 1.0
        advantages = []
        for member, turns, value in zip(group.members, to_go, returns, strict=True):
            if turns is None or value is None:
                advantages.append((0.0,) * len(member.trajectory.turns))
                continue
            baseline = self._baseline(scorable, value)
            advantages.append(tuple((turn - baseline) / divisor for turn in turns))
        return GroupAdvantages(tuple(advantages), is_informative=True, returns=returns)

    def _baseline(self, scorable: Sequence[float], own: float) -> float:
        total = math.fsum(scorable)
        if self.settings.baseline == "leave_one_out":
            return (total - own) / (len(scorable) - 1)
        return total / len(scorable)


def _returns_to_go(member: ScoredTrajectory, gamma: float) -> tuple[float, ...] | None:
    """G_t = r_t + γ G_{t+1} for each turn; None = unscorable."""
    rewards, trajectory = member.turn_rewards, member.trajectory
    if rewards is None:
        return None
    if len(rewards) != len(trajectory.turns):
        raise TrainingError(
            f"trajectory {trajectory.id!r} has {len(trajectory.turns)} turns but {len(rewards)} turn rewards; "
            "give one reward per turn, or None when it cannot be scored"
        )
    if any(math.isinf(reward) for reward in rewards):
        raise TrainingError(
            f"trajectory {trajectory.id!r} has an infinite reward in {rewards!r}; rewards are finite"
        )
    if not member.is_scorable:
        return None
    to_go: list[float] = []
    for reward in reversed(rewards):
        to_go.append(reward + (gamma * to_go[-1] if to_go else 0.0))
    return tuple(reversed(to_go))


def _differ(values: Sequence[float]) -> bool:
    if len(values) < 2:
        return False
    return max(values) - min(values) > _NO_DIFFERENCE * max(1.0, *(abs(value) for value in values))


def _sample_std(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def unscorable_count(groups: Iterable[ScoredGroup]) -> int:
    """How many members of the groups have no usable reward."""
    return sum(not member.is_scorable for group in groups for member in group.members)
