"""Which nodes of two trees correspond, and how similar two nodes are by what corresponds below them."""

import math
from collections.abc import Iterator

from upturn.rewards.difference.node import Tree


class Mapping:
    """A one-to-one relation between nodes of two trees. It grows; no pair is taken back."""

    __slots__ = ("after", "before", "to_after", "to_before")

    def __init__(self, before: Tree, after: Tree) -> None:
        self.before = before
        self.after = after
        self.to_after = [-1] * len(before)
        """By node of the tree before; −1 = none corresponds."""
        self.to_before = [-1] * len(after)

    def link(self, old: int, new: int) -> None:
        """Adds a pair of two nodes that have none yet."""
        self.to_after[old] = new
        self.to_before[new] = old

    def link_subtrees(self, old: int, new: int) -> None:
        """Adds two equal subtrees, where they are not linked yet."""
        for offset in range(self.before.sizes[old]):
            if self.to_after[old + offset] < 0 and self.to_before[new + offset] < 0:
                self.link(old + offset, new + offset)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All pairs, by node of the tree before."""
        return ((old, new) for old, new in enumerate(self.to_after) if new >= 0)

    def __len__(self) -> int:
        return sum(new >= 0 for new in self.to_after)

    def common(self, old: int, new: int) -> int:
        """Nodes below ``old`` whose partner is below ``new``."""
        start, stop = new + 1, new + self.after.sizes[new]
        below = self.to_after[old + 1 : old + self.before.sizes[old]]
        return sum([start <= partner < stop for partner in below])

    def sizes_below(self, old: int, new: int) -> tuple[int, int]:
        """Numbers of nodes below each of both."""
        return self.before.sizes[old] - 1, self.after.sizes[new] - 1

    def chawathe(self, old: int, new: int) -> float:
        """Common nodes below both over those below the larger; in [0, 1]; 0 for two leaves."""
        larger = max(self.sizes_below(old, new))
        return self.common(old, new) / larger if larger else 0.0

    def dice(self, old: int, new: int) -> float:
        """Twice the common nodes over all below both; in [0, 1]; 0 for two leaves."""
        total = sum(self.sizes_below(old, new))
        return 2 * self.common(old, new) / total if total else 0.0

    def jaccard(self, old: int, new: int) -> float:
        """Common nodes over different ones; in [0, 1]; 0 for two leaves."""
        common = self.common(old, new)
        total = sum(self.sizes_below(old, new)) - common
        return common / total if total else 0.0

    def overlap(self, old: int, new: int) -> float:
        """Common nodes over those below the smaller; in [0, 1]; 0 where one is a leaf."""
        smaller = min(self.sizes_below(old, new))
        return self.common(old, new) / smaller if smaller else 0.0


def adaptive_threshold(mapping: Mapping, old: int, new: int) -> float:
    """Least similarity of two containers: 1 / (1 + ln(nodes below both)), as GumTree's ``gumtree-simple``."""
    total = sum(mapping.sizes_below(old, new))
    return 1 / (1 + math.log(total)) if total else 1.0
