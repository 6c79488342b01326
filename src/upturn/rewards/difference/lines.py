"""Lines that differ between two texts; time is bounded."""

from collections import Counter
from typing import NamedTuple

from upturn.rewards.difference.sequence import common_subsequence


class LineChanges(NamedTuple):
    """Numbers of lines."""

    added: int
    removed: int


def changed_lines(before: str, after: str) -> LineChanges:
    """Lines that are added and removed, without those that are blank or differ in their ends alone.

    Of long texts with many changes, a line that stands on both sides may be counted on both.
    """
    old = [line.rstrip() for line in before.splitlines() if line.strip()]
    new = [line.rstrip() for line in after.splitlines() if line.strip()]
    kept = len(common_subsequence(old, new))
    return LineChanges(len(new) - kept, len(old) - kept)


def different_lines(before: str, after: str) -> int:
    """Lines of the larger side that the other does not have, wherever they stand: linear in time."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return max((old - new).total(), (new - old).total())
