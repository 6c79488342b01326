"""How many points each group of strata gives to a batch."""

from bisect import bisect_right
from collections.abc import Hashable, Mapping
from typing import TypeVar

GroupT = TypeVar("GroupT", bound=Hashable)


def allocate(size: int, available: Mapping[GroupT, int]) -> dict[GroupT, int]:
    """Returns equal shares of ``size``; what a group lacks is shared among the others in turn.

    Shares differ by at most 1 between groups with enough points; the earlier group gets the larger one. Their sum
    is ``size``, or all that is available.
    """
    size = min(size, sum(available.values()))
    # The largest level that all groups can be filled to, as far as they reach.
    level = bisect_right(range(size), size, key=lambda height: _filled(available, height + 1))
    shares = {group: min(count, level) for group, count in available.items()}
    left = size - sum(shares.values())
    for group in [group for group, count in available.items() if count > level][:left]:
        shares[group] += 1
    return shares


def _filled(available: Mapping[GroupT, int], height: int) -> int:
    return sum(min(count, height) for count in available.values())
