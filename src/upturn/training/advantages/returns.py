"""Returns per turn, and arithmetic shared by the estimators."""

import math
from collections.abc import Callable, Sequence

from upturn.errors import TrainingError
from upturn.training.advantage import GroupAdvantages, ScoredGroup, ScoredTrajectory

NO_DIFFERENCE = 1e-9
"""Relative tolerance below which two returns are the same number computed in a different order."""
STD_FLOOR = 1e-6
"""Added to a standard deviation, as in verl; matters only for nearly equal returns."""

TurnNumbers = tuple[float, ...]


def returns_to_go(group: ScoredGroup, gamma: float) -> list[TurnNumbers | None]:
    """G_t = r_t + γ G_{t+1} for each turn of each member; None = unscorable. Raises TrainingError."""
    return [
        None if (rewards := checked_rewards(member)) is None else rewards_to_go(rewards, gamma)
        for member in group.members
    ]


def rewards_to_go(rewards: Sequence[float], gamma: float) -> TurnNumbers:
    """The discounted sum of each reward and all later ones."""
    returns: list[float] = []
    for reward in reversed(rewards):
        returns.append(reward + (gamma * returns[-1] if returns else 0.0))
    return tuple(reversed(returns))


def checked_rewards(member: ScoredTrajectory) -> TurnNumbers | None:
    """The turns' rewards; None = unscorable. Raises TrainingError where they do not fit the turns."""
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
    return rewards if member.is_scorable else None


def first_returns(returns: Sequence[TurnNumbers | None]) -> tuple[float | None, ...]:
    """The return from the first turn; 0 for a trajectory without turns, None = unscorable."""
    return tuple(None if turns is None else (turns[0] if turns else 0.0) for turns in returns)


def differ(values: Sequence[float]) -> bool:
    """Whether at least two of the values differ by more than rounding."""
    if len(values) < 2:
        return False
    return max(values) - min(values) > NO_DIFFERENCE * max(1.0, *(abs(value) for value in values))


def mean_of(values: Sequence[float]) -> float:
    """The mean of at least one value, independent of their order."""
    return math.fsum(values) / len(values)


def sample_std(values: Sequence[float]) -> float:
    """The standard deviation with divisor n − 1 of at least two values."""
    mean = mean_of(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def centred(values: Sequence[float], *, is_scaled: bool) -> list[float]:
    """The values minus their mean, divided by their deviation if ``is_scaled``; all 0 where they are equal."""
    if not differ(values):
        return [0.0] * len(values)
    mean, divisor = mean_of(values), sample_std(values) + STD_FLOOR if is_scaled else 1.0
    return [(value - mean) / divisor for value in values]


def group_advantages(turns: Sequence[Sequence[float]], returns: tuple[float | None, ...]) -> GroupAdvantages:
    """The group's advantages, informative if any is not 0."""
    numbers = tuple(tuple(turn) for turn in turns)
    return GroupAdvantages(numbers, any(value != 0.0 for number in numbers for value in number), returns)


def zero_credit(member: ScoredTrajectory) -> TurnNumbers:
    """An advantage of 0 for each turn."""
    return (0.0,) * len(member.trajectory.turns)


def credit_members(
    group: ScoredGroup, gamma: float, credit: Callable[[ScoredTrajectory, TurnNumbers], TurnNumbers]
) -> GroupAdvantages:
    """Applies ``credit`` to each member and its rewards; 0 for unscorable members."""
    turn_credits = []
    for member in group.members:
        rewards = checked_rewards(member)
        turn_credits.append(zero_credit(member) if rewards is None else credit(member, rewards))
    return group_advantages(turn_credits, first_returns(returns_to_go(group, gamma)))
