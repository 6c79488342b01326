"""Common subsequences with bounded work. Pure functions of sequences of integers."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

MAX_CELLS = 40_000
"""Of the table of an exact common subsequence: 200 × 200. Longer ones are cut at elements unique on both sides."""

Pair = tuple[int, int]


def common_subsequence(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[Pair]:
    """Positions of a common subsequence, ascending: the longest, or for long inputs a long one.

    Equal beginnings and ends are always taken.
    """
    start = 0
    shorter = min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    tail = 0
    while tail < shorter - start and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    pairs = [(position, position) for position in range(start)]
    middle_left, middle_right = left[start : len(left) - tail], right[start : len(right) - tail]
    if middle_left and middle_right:
        is_small = len(middle_left) * len(middle_right) <= MAX_CELLS
        middle = _longest(middle_left, middle_right) if is_small else _patience(middle_left, middle_right)
        pairs += [(start + old, start + new) for old, new in middle]
    pairs += [(len(left) - back, len(right) - back) for back in range(tail, 0, -1)]
    return pairs


def _longest(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[Pair]:
    rows = [[0] * (len(right) + 1)]
    for old in reversed(left):
        last = rows[-1]
        row = [0] * (len(right) + 1)
        for new in range(len(right) - 1, -1, -1):
            row[new] = last[new + 1] + 1 if old == right[new] else max(last[new], row[new + 1])
        rows.append(row)
    rows.reverse()
    pairs, old, new = [], 0, 0
    while old < len(left) and new < len(right):
        if left[old] == right[new]:
            pairs.append((old, new))
            old, new = old + 1, new + 1
        elif rows[old + 1][new] >= rows[old][new + 1]:
            old += 1
        else:
            new += 1
    return pairs


def _patience(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[Pair]:
    """Elements that are unique on both sides, in order, and common subsequences between them.

    Where none is, runs of two, four or eight that are unique; where no run is either, nothing.
    """
    anchors: list[Pair] = []
    for width in (1, 2, 4, 8):
        if not anchors:
            anchors = _unique(_runs(left, width), _runs(right, width))
    if not anchors:
        return []
    pairs: list[Pair] = []
    start, begin = 0, 0
    for old, new in (*anchors, (len(left), len(right))):
        between = common_subsequence(left[start:old], right[begin:new])
        pairs += [(start + one, begin + other) for one, other in between]
        if old < len(left):
            pairs.append((old, new))
        start, begin = old + 1, new + 1
    return pairs


def _runs(elements: Sequence[Hashable], width: int) -> list[tuple[Hashable, ...]]:
    return [tuple(elements[start : start + width]) for start in range(len(elements) - width + 1)]


def _unique(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[Pair]:
    counts_left, counts_right = Counter(left), Counter(right)
    places = {element: place for place, element in enumerate(right) if counts_right[element] == 1}
    pairs = [
        (place, places[element])
        for place, element in enumerate(left)
        if counts_left[element] == 1 and element in places
    ]
    return [pairs[kept] for kept in increasing([new for _, new in pairs])]


def increasing(numbers: Sequence[int]) -> list[int]:
    """Positions of a longest increasing subsequence of different numbers, ascending."""
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for position, number in enumerate(numbers):
        length = bisect_left(tails, number)
        previous.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(number)
            ends.append(position)
        else:
            tails[length] = number
            ends[length] = position
    chain: list[int] = []
    position = ends[-1] if ends else -1
    while position >= 0:
        chain.append(position)
        position = previous[position]
    chain.reverse()
    return chain
