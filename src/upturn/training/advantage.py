"""The contract of an advantage: the rewards of a group become one number per turn.

Only trajectories of the same task are compared. Unscorable ones (a judge crashed, a reward is missing) are excluded
from every comparison and get 0, which is not the same as a reward of 0. The estimators are in
``upturn.training.advantages``. No torch here.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Literal, NamedTuple, Protocol, TypeVar

from upturn.records import Task, Trajectory, record

ItemT = TypeVar("ItemT")
Need = Literal["state_hashes", "token_rows", "state_values", "potentials", "reward_components"]
"""Inputs of an estimator other than rewards.

``state_hashes``: of every turn, from the environment, equal for equal states. ``token_rows``: tokens as recorded.
``state_values``, ``potentials``, ``reward_components``: the fields of ScoredTrajectory.
"""


@record
class StateValue:
    """The value of a state: the mean return of continuations from it."""

    mean: float
    """NaN = not measured."""
    count: int | None
    """Number of continuations; None = exact, as after the end, where no reward follows."""


@record
class RewardComponent:
    """One component of a trajectory's reward."""

    name: str
    value: float | None
    """None = missing, which is not 0."""
    weight: float
    """Its share in the reward; the components' weighted sum is the trajectory's return."""


@record
class ScoredTrajectory:
    """A trajectory with the rewards of its turns."""

    trajectory: Trajectory
    turn_rewards: tuple[float, ...] | None
    """One per turn. None, or NaN in any turn = unscorable: excluded from the baseline, advantage 0, counted."""
    state_values: tuple[StateValue | None, ...] | None = None
    """Of the state before each turn and of the one after the last: one more than turns. None, for all or for one
    state = not measured."""
    potentials: tuple[float, ...] | None = None
    """Φ, the progress of the work in these states. The last one counts as 0, whatever its value, so that shaping
    adds nothing to the return. None = the environment has no potentials."""
    succeeded: bool | None = None
    """The verifier's decision, independent of the reward. None = unknown."""
    components: tuple[RewardComponent, ...] | None = None
    """What the reward consists of. None = not known."""
    proxies: Mapping[str, float | None] = field(default_factory=dict)
    """Scores by reward models, in [0, 1], by name; None = missing. Compared with ``succeeded``, not added to
    rewards."""

    @property
    def is_scorable(self) -> bool:
        """False when a reward is missing."""
        return self.turn_rewards is not None and not any(math.isnan(reward) for reward in self.turn_rewards)


@record
class ScoredGroup:
    """Scored trajectories of one task."""

    task: Task
    members: tuple[ScoredTrajectory, ...]


class GroupAdvantages(NamedTuple):
    """The advantages of one group."""

    turns: tuple[tuple[float, ...], ...]
    """By member, then by turn. All 0 when the group is not informative."""
    is_informative: bool
    """False: every advantage is 0, as with fewer than two scorable members, or equal rewards."""
    returns: tuple[float | None, ...]
    """Each member's discounted return from its first turn; None = unscorable."""


class Advantage(Protocol):
    """Turns the rewards of a group into one number per turn."""

    @property
    def needs(self) -> frozenset[Need]:
        """Required inputs other than rewards; without them a call raises TrainingError with the cure."""

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """Depends on this group only, and not on the order of its members.

        Raises TrainingError for rewards that do not fit the turns.
        """


def group_by_task(items: Iterable[ItemT], task_of: Callable[[ItemT], str]) -> list[list[ItemT]]:
    """Returns the items grouped by task id, tasks in the order of their first item."""
    groups: dict[str, list[ItemT]] = {}
    for item in items:
        groups.setdefault(task_of(item), []).append(item)
    return list(groups.values())


def total_reward(member: ScoredTrajectory) -> float:
    """Returns the undiscounted sum of a scorable trajectory's rewards."""
    return math.fsum(member.turn_rewards or ())


def mean_return(groups: Iterable[ScoredGroup]) -> float:
    """Returns the mean undiscounted return of the scorable trajectories; NaN = there are none."""
    returns = [total_reward(member) for group in groups for member in group.members if member.is_scorable]
    return math.fsum(returns) / len(returns) if returns else math.nan


def unscorable_count(groups: Iterable[ScoredGroup]) -> int:
    """Returns the number of members without a usable reward."""
    return sum(not member.is_scorable for group in groups for member in group.members)
