"""Scales the advantages of a whole iteration."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

from upturn.training.advantage import GroupAdvantages, ScoredGroup, ScoredTrajectory
from upturn.training.advantages.returns import STD_FLOOR, differ, group_advantages, sample_std
from upturn.training.advantages.settings import Scale

_VARIANCE_FLOOR = 1e-8
"""As in verl's whitening."""


def rescaled(
    groups: Sequence[ScoredGroup], advantages: Sequence[GroupAdvantages], *, by: Scale
) -> list[GroupAdvantages]:
    """The groups' advantages, scaled or whitened over the whole iteration.

    ``batch_std``: divided by the sample standard deviation of all returns (Lite-PPO, arXiv 2508.08221: the group's
    mean, the batch's deviation). ``whiten``: minus their mean, divided by their standard deviation, each turn
    weighted by its written tokens (REINFORCE++, arXiv 2501.03262), or equally where no trajectory has tokens.
    Unscorable members are excluded and stay 0. Other scales are applied by the estimator of a group; then the
    advantages are returned unchanged.
    """
    if by == "batch_std":
        return _mapped(advantages, _by_return_std(advantages))
    if by == "whiten":
        return _mapped(advantages, _whitening(groups, advantages))
    return list(advantages)


def _by_return_std(advantages: Sequence[GroupAdvantages]) -> Callable[[float], float]:
    returns = [value for group in advantages for value in group.returns if value is not None]
    divisor = sample_std(returns) + STD_FLOOR if differ(returns) else 1.0
    return lambda value: value / divisor


def _whitening(groups: Sequence[ScoredGroup], advantages: Sequence[GroupAdvantages]) -> Callable[[float], float]:
    has_tokens = any(member.trajectory.rows for group in groups for member in group.members)
    values: list[float] = []
    weights: list[int] = []
    for group, credit in zip(groups, advantages, strict=True):
        for member, turns, value in zip(group.members, credit.turns, credit.returns, strict=True):
            if value is not None:
                values += turns
                weights += _written(member) if has_tokens else [1] * len(turns)
    return whitening(values, weights)


def whitening(values: Sequence[float], weights: Sequence[int]) -> Callable[[float], float]:
    """The map that gives the values, each counted ``weights`` times, mean 0 and deviation 1 (divisor n − 1).

    It maps everything to 0 where fewer than two values count, or all that count are equal.
    """
    total = sum(weights)
    if total < 2 or not differ([value for value, weight in zip(values, weights, strict=True) if weight]):
        return lambda value: 0.0 * value
    mean = math.fsum(weight * value for value, weight in zip(values, weights, strict=True)) / total
    squares = math.fsum(weight * (value - mean) ** 2 for value, weight in zip(values, weights, strict=True))
    divisor = math.sqrt(squares / (total - 1) + _VARIANCE_FLOOR)
    return lambda value: (value - mean) / divisor


def _written(member: ScoredTrajectory) -> list[int]:
    """Written tokens of each turn."""
    counted = Counter[int]()
    for row in member.trajectory.rows:
        for span in row.spans:
            counted[span.turn] += span.stop - span.start
    return [counted[index] for index in range(len(member.trajectory.turns))]


def _mapped(advantages: Sequence[GroupAdvantages], change: Callable[[float], float]) -> list[GroupAdvantages]:
    return [
        group_advantages(
            [
                turns if value is None else [change(turn) for turn in turns]
                for turns, value in zip(group.turns, group.returns, strict=True)
            ],
            group.returns,
        )
        for group in advantages
    ]
