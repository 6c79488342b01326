"""A node of a syntax tree, whatever the language, and a tree with its nodes numbered."""

from collections.abc import Iterator
from typing import NamedTuple

Identities = dict[tuple[object, ...], int]
"""Identity by kind, label and the identities of the children; trees that are compared share it."""


class Node(NamedTuple):
    """A node with the nodes below it. Immutable."""

    kind: str
    """What it is, in the words of its grammar; an update never changes it."""
    label: str = ""
    """Its own text, such as a name, an operator or a literal."""
    children: tuple["Node", ...] = ()
    line: int = 0
    """Where it starts, from 1; 0 = nowhere. Two nodes may be the same but for their lines."""


class Tree:
    """A tree whose nodes have numbers in preorder: those below node ``i`` are ``i + 1`` to ``i + sizes[i] - 1``.

    All lists have one entry per node.
    """

    __slots__ = ("children", "heights", "identities", "kinds", "labels", "lines", "parents", "sizes")

    def __init__(self, root: Node, identities: Identities) -> None:
        """Adds what is new to ``identities``."""
        self.kinds: list[str] = []
        self.labels: list[str] = []
        self.lines: list[int] = []
        self.parents: list[int] = []
        """−1 = the root has none."""
        self.children: list[list[int]] = []
        stack = [(root, -1)]
        while stack:
            (kind, label, below, line), parent = stack.pop()
            number = len(self.kinds)
            self.kinds.append(kind)
            self.labels.append(label)
            self.lines.append(line)
            self.parents.append(parent)
            self.children.append([])
            if parent >= 0:
                self.children[parent].append(number)
            if below:
                stack.extend([(child, number) for child in reversed(below)])
        count = len(self.kinds)
        self.sizes = [1] * count
        self.heights = [0] * count
        """0 = a leaf."""
        self.identities = [0] * count
        """Equal for two subtrees of equal kinds, labels and shape, also across trees."""
        self._measure(identities)

    def _measure(self, identities: Identities) -> None:
        sizes, heights, own = self.sizes, self.heights, self.identities
        for number in range(len(sizes) - 1, -1, -1):
            below = self.children[number]
            key: tuple[object, ...]
            if below:
                sizes[number] = 1 + sum([sizes[child] for child in below])
                heights[number] = 1 + max([heights[child] for child in below])
                key = (self.kinds[number], self.labels[number], *[own[child] for child in below])
            else:
                key = (self.kinds[number], self.labels[number])
            own[number] = identities.setdefault(key, len(identities))

    def __len__(self) -> int:
        return len(self.kinds)

    def below(self, number: int) -> range:
        """The nodes below it, itself excluded."""
        return range(number + 1, number + self.sizes[number])

    def subtree(self, number: int) -> range:
        """The node and those below it."""
        return range(number, number + self.sizes[number])

    def shape(self, number: int) -> tuple[object, ...]:
        """Equal for two subtrees that differ in labels alone."""
        stop = number + self.sizes[number]
        return (*self.kinds[number:stop], *self.sizes[number:stop])

    def ancestors(self, number: int) -> Iterator[int]:
        """From its parent up to the root."""
        parent = self.parents[number]
        while parent >= 0:
            yield parent
            parent = self.parents[parent]

    def breadth_first(self) -> list[int]:
        """The nodes level by level."""
        order = [0]
        for number in order:
            order += self.children[number]
        return order

    def postorder(self) -> list[int]:
        """The nodes, children before their parents."""
        order: list[int] = []
        stack = [0]
        while stack:
            number = stack.pop()
            order.append(number)
            stack += self.children[number]
        order.reverse()
        return order


def index_pair(before: Node, after: Node) -> tuple[Tree, Tree]:
    """Both trees with shared identities."""
    identities: Identities = {}
    return Tree(before, identities), Tree(after, identities)
