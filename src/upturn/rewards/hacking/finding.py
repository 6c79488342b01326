"""What a detector is, and what it says."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from upturn.records import record
from upturn.rewards.hacking.change import Change


class Spot(NamedTuple):
    """A place of a change that a detector points at."""

    path: str
    line: int
    """From 1; 0 = the file as a whole."""
    reason: str


@record
class Finding:
    """Something in a change that games its tests, or looks like it."""

    rule: str
    version: int
    path: str
    line: int
    """From 1, in the file after the change, or before it where it is gone; 0 = the file as a whole."""
    reason: str


@record
class Detector:
    """A named rule. ``find`` is a pure function of a change."""

    rule: str
    version: int
    """Raised whenever the same change may give other findings."""
    catches: str
    find: Callable[[Change], Iterable[Spot]]
