"""The contract of an advantage: the rewards of a group become one number per turn.

Only what is comparable is compared: attempts at one task. Unscorable attempts (a judge crashed, a reward is
missing) stay out of every comparison and get 0, which is not the same as a reward of 0. The estimators stand in
``upturn.training.advantages``. No torch here.
"""

import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, Protocol, TypeVar

from upturn.records import Task, Trajectory, record

ItemT = TypeVar("ItemT")
Need = Literal["state_hashes", "token_rows", "state_values", "potentials"]
"""What an estimator may need beside rewards.

``state_hashes``: of every turn, from the environment, equal where the state is. ``token_rows``: tokens as recorded.
``state_values``, ``potentials``: the fields of ScoredTrajectory.
"""


@record
class StateValue:
    """What an attempt still earns from a state on, as the mean of continuations from there."""

    mean: float
    """NaN = not measured."""
    count: int | None
    """How many continuations; None = exact, as after the end, where nothing is earned any more."""


@record
class ScoredTrajectory:
    """An attempt with what its turns earned."""

    trajectory: Trajectory
    turn_rewards: tuple[float, ...] | None
    """One per turn. None, or NaN in any turn = unscorable: excluded from the baseline, advantage 0, counted."""
    state_values: tuple[StateValue | None, ...] | None = None
    """Of the state before each turn and of the one after the last: one more than turns. None, here or in one place
    = not measured."""
    potentials: tuple[float, ...] | None = None
    """Φ, how far the work has come, of the same states. The last counts as 0 whatever stands there: an attempt that
    is over must not keep what it was lent. None = the environment gives none."""
    succeeded: bool | None = None
    """What the verifier said, whatever was earned. None = it could not say, or nobody asked it."""

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
    """False: every advantage is 0, as with fewer than two scorable members, or where nothing differs."""
    returns: tuple[float | None, ...]
    """Each member's discounted return from its first turn; None = unscorable."""


class Advantage(Protocol):
    """Turns the rewards of a group into one number per turn."""

    @property
    def needs(self) -> frozenset[Need]:
        """What must be there beside rewards; without it a call raises TrainingError, naming the cure."""

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """Depends on this group only, and not on the order of its members.

        Raises TrainingError for rewards that do not fit the turns.
        """


def by_task(items: Iterable[ItemT], task_of: Callable[[ItemT], str]) -> list[list[ItemT]]:
    """The items of one task together, tasks in the order in which they first appear; ``task_of`` gives an id."""
    found: dict[str, list[ItemT]] = {}
    for item in items:
        found.setdefault(task_of(item), []).append(item)
    return list(found.values())


def reward_of(member: ScoredTrajectory) -> float:
    """What a scorable attempt earned over all its turns."""
    return math.fsum(member.turn_rewards or ())


def mean_return(groups: Iterable[ScoredGroup]) -> float:
    """What the attempts that could be scored earned, undiscounted; NaN = none could be."""
    earned = [reward_of(member) for group in groups for member in group.members if member.is_scorable]
    return math.fsum(earned) / len(earned) if earned else math.nan


def unscorable_count(groups: Iterable[ScoredGroup]) -> int:
    """How many members of the groups have no usable reward."""
    return sum(not member.is_scorable for group in groups for member in group.members)
