"""What attempts earned, turn by turn, and the small arithmetic that estimators share."""

import math
from collections.abc import Callable, Sequence

from upturn.errors import TrainingError
from upturn.training.advantage import GroupAdvantages, ScoredGroup, ScoredTrajectory

NO_DIFFERENCE = 1e-9
"""Returns closer than this, relative to their size, are the same number computed in another order."""
STD_FLOOR = 1e-6
"""Added to a standard deviation, as verl does; matters only for returns that hardly differ."""

TurnNumbers = tuple[float, ...]


def returns_to_go(group: ScoredGroup, gamma: float) -> list[TurnNumbers | None]:
    """G_t = r_t + γ G_{t+1} for each turn of each member; None = unscorable. Raises TrainingError."""
    return [
        None if (rewards := checked_rewards(member)) is None else to_go(rewards, gamma) for member in group.members
    ]


def to_go(rewards: Sequence[float], gamma: float) -> TurnNumbers:
    """The discounted sum of each reward and those after it."""
    found: list[float] = []
    for reward in reversed(rewards):
        found.append(reward + (gamma * found[-1] if found else 0.0))
    return tuple(reversed(found))


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


def first_returns(found: Sequence[TurnNumbers | None]) -> tuple[float | None, ...]:
    """The return from the first turn; 0 for an attempt without turns, None = unscorable."""
    return tuple(None if turns is None else (turns[0] if turns else 0.0) for turns in found)


def differ(values: Sequence[float]) -> bool:
    """Whether at least two of the values are different numbers, not one number computed in several orders."""
    if len(values) < 2:
        return False
    return max(values) - min(values) > NO_DIFFERENCE * max(1.0, *(abs(value) for value in values))


def mean_of(values: Sequence[float]) -> float:
    """Of at least one value; does not depend on their order."""
    return math.fsum(values) / len(values)


def sample_std(values: Sequence[float]) -> float:
    """With divisor n − 1; of at least two values."""
    mean = mean_of(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def told(turns: Sequence[Sequence[float]], returns: tuple[float | None, ...]) -> GroupAdvantages:
    """What a group teaches, informative where any turn's number is not 0."""
    numbers = tuple(tuple(turn) for turn in turns)
    return GroupAdvantages(numbers, any(value != 0.0 for number in numbers for value in number), returns)


def silent(member: ScoredTrajectory) -> TurnNumbers:
    """0 for each turn."""
    return (0.0,) * len(member.trajectory.turns)


def credited(
    group: ScoredGroup, gamma: float, credit: Callable[[ScoredTrajectory, TurnNumbers], TurnNumbers]
) -> GroupAdvantages:
    """``credit`` of each member and its rewards; 0 for unscorable members."""
    found = []
    for member in group.members:
        rewards = checked_rewards(member)
        found.append(silent(member) if rewards is None else credit(member, rewards))
    return told(found, first_returns(returns_to_go(group, gamma)))
