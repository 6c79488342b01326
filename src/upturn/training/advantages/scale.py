"""Advantages of a whole iteration on one scale."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

from upturn.training.advantage import GroupAdvantages, ScoredGroup, ScoredTrajectory
from upturn.training.advantages.returns import STD_FLOOR, differ, sample_std, told
from upturn.training.advantages.settings import Scale

_VARIANCE_FLOOR = 1e-8
"""As verl's whitening has it."""


def rescaled(
    groups: Sequence[ScoredGroup], found: Sequence[GroupAdvantages], *, by: Scale
) -> list[GroupAdvantages]:
    """The groups' advantages, divided or whitened by what all of the iteration have in common.

    ``batch_std``: divided by the sample standard deviation of all returns (Lite-PPO, arXiv 2508.08221: the group's
    mean, the batch's deviation). ``whiten``: minus their mean, divided by their standard deviation, each turn
    counted once for every token written in it (REINFORCE++, arXiv 2501.03262); where no trajectory has tokens, once
    for every turn. Unscorable members take no part and stay 0. Other scales belong to the estimator of one group:
    nothing is left to do.
    """
    if by == "batch_std":
        return _changed(found, _by_return_std(found))
    if by == "whiten":
        return _changed(found, _whitening(groups, found))
    return list(found)


def _by_return_std(found: Sequence[GroupAdvantages]) -> Callable[[float], float]:
    returns = [value for each in found for value in each.returns if value is not None]
    divisor = sample_std(returns) + STD_FLOOR if differ(returns) else 1.0
    return lambda value: value / divisor


def _whitening(groups: Sequence[ScoredGroup], found: Sequence[GroupAdvantages]) -> Callable[[float], float]:
    has_tokens = any(member.trajectory.rows for group in groups for member in group.members)
    values: list[float] = []
    weights: list[int] = []
    for group, each in zip(groups, found, strict=True):
        for member, turns, value in zip(group.members, each.turns, each.returns, strict=True):
            if value is not None:
                values += turns
                weights += _written(member) if has_tokens else [1] * len(turns)
    return whitening(values, weights)


def whitening(values: Sequence[float], weights: Sequence[int]) -> Callable[[float], float]:
    """What gives the values, each counted ``weights`` times, mean 0 and standard deviation 1 (divisor n − 1).

    Everything becomes 0 where fewer than two values count, or all that do are equal.
    """
    total = sum(weights)
    if total < 2 or not differ([value for value, weight in zip(values, weights, strict=True) if weight]):
        return lambda value: 0.0 * value
    mean = math.fsum(weight * value for value, weight in zip(values, weights, strict=True)) / total
    squares = math.fsum(weight * (value - mean) ** 2 for value, weight in zip(values, weights, strict=True))
    divisor = math.sqrt(squares / (total - 1) + _VARIANCE_FLOOR)
    return lambda value: (value - mean) / divisor


def _written(member: ScoredTrajectory) -> list[int]:
    """Tokens written in each turn."""
    counted = Counter[int]()
    for row in member.trajectory.rows:
        for span in row.spans:
            counted[span.turn] += span.stop - span.start
    return [counted[index] for index in range(len(member.trajectory.turns))]


def _changed(found: Sequence[GroupAdvantages], change: Callable[[float], float]) -> list[GroupAdvantages]:
    return [
        told(
            [
                turns if value is None else [change(turn) for turn in turns]
                for turns, value in zip(each.turns, each.returns, strict=True)
            ],
            each.returns,
        )
        for each in found
    ]
