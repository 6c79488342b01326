"""The optimal mapping of two ordered trees (Zhang and Shasha, SIAM J. Computing 18(6), 1989).

An insertion, a deletion and a change of a label cost 1; nodes of different kinds are never linked. Time grows with
the product of the sizes times that of the depths: for small trees only.
"""

from typing import NamedTuple

from upturn.rewards.difference.mapping import Mapping
from upturn.rewards.difference.node import Tree

_NEVER = 3
"""Cost of linking two kinds: more than to delete the one and insert the other."""


class Optimal(NamedTuple):
    """The distance of two trees and the pairs of nodes that attain it."""

    distance: int
    pairs: tuple[tuple[int, int], ...]
    """By number in each tree, ascending."""


class _Postorder(NamedTuple):
    """A subtree in postorder; positions start at 1, as in the paper."""

    nodes: list[int]
    leftmost: list[int]
    """By position: that of the leftmost leaf below."""
    keyroots: list[int]


def optimal_mapping(before: Tree, after: Tree, old: int = 0, new: int = 0) -> Optimal:
    """The mapping of the subtrees of these nodes with the least cost."""
    work = _Work(before, after, old, new)
    for one in work.left.keyroots:
        for other in work.right.keyroots:
            work.forest(one, other)
    return Optimal(work.table[-1][-1], tuple(sorted(work.backtrack())))


def link_optimal(mapping: Mapping, old: int, new: int) -> None:
    """Links what the optimal mapping of these subtrees links, where the parents correspond already."""
    free_old = [node for node in mapping.before.below(old) if mapping.to_after[node] < 0]
    free_new = {mapping.after.kinds[node] for node in mapping.after.below(new) if mapping.to_before[node] < 0}
    if not any(mapping.before.kinds[node] in free_new for node in free_old):
        return
    for one, other in optimal_mapping(mapping.before, mapping.after, old, new).pairs:
        if mapping.to_after[one] >= 0 or mapping.to_before[other] >= 0:
            continue
        if mapping.to_after[mapping.before.parents[one]] == mapping.after.parents[other]:
            mapping.link(one, other)


def _postorder(tree: Tree, root: int) -> _Postorder:
    nodes, leftmost = [-1], [0]
    first: dict[int, int] = {}
    stack, order = [root], []
    while stack:
        node = stack.pop()
        order.append(node)
        stack += tree.children[node]
    for node in reversed(order):
        position = len(nodes)
        first[node] = first[tree.children[node][0]] if tree.children[node] else position
        nodes.append(node)
        leftmost.append(first[node])
    last = {leaf: position for position, leaf in enumerate(leftmost) if position}
    return _Postorder(nodes, leftmost, sorted(last.values()))


class _Work:
    """The distances of one pair of trees."""

    def __init__(self, before: Tree, after: Tree, old: int, new: int) -> None:
        self.before, self.after = before, after
        self.left, self.right = _postorder(before, old), _postorder(after, new)
        self.table = [[0] * len(self.right.nodes) for _ in self.left.nodes]
        """Distances of the subtrees at each pair of positions."""

    def cost(self, old: int, new: int) -> int:
        """Of linking the nodes at two positions."""
        one, other = self.left.nodes[old], self.right.nodes[new]
        if self.before.kinds[one] != self.after.kinds[other]:
            return _NEVER
        return int(self.before.labels[one] != self.after.labels[other])

    def forest(self, one: int, other: int) -> list[list[int]]:
        """Distances of the forests that end at each position below two roots; fills ``table``."""
        left, right, table = self.left, self.right, self.table
        start, begin = left.leftmost[one], right.leftmost[other]
        forest = [[0] * (other - begin + 2) for _ in range(one - start + 2)]
        for row in range(1, len(forest)):
            forest[row][0] = row
        for column in range(1, len(forest[0])):
            forest[0][column] = column
        for row in range(1, len(forest)):
            i = start + row - 1
            above, current = forest[row - 1], forest[row]
            for column in range(1, len(current)):
                j = begin + column - 1
                least = min(above[column], current[column - 1]) + 1
                if left.leftmost[i] == start and right.leftmost[j] == begin:
                    least = min(least, above[column - 1] + self.cost(i, j))
                    table[i][j] = least
                else:
                    least = min(least, forest[left.leftmost[i] - start][right.leftmost[j] - begin] + table[i][j])
                current[column] = least
        return forest

    def backtrack(self) -> list[tuple[int, int]]:
        """The pairs of an optimal mapping, when all forests are computed."""
        left, right = self.left, self.right
        pairs: list[tuple[int, int]] = []
        trees = [(len(left.nodes) - 1, len(right.nodes) - 1)]
        while trees:
            one, other = trees.pop()
            start, begin = left.leftmost[one], right.leftmost[other]
            forest = self.forest(one, other)
            row, column = one - start + 1, other - begin + 1
            while row and column:
                i, j = start + row - 1, begin + column - 1
                if forest[row][column] == forest[row - 1][column] + 1:
                    row -= 1
                elif forest[row][column] == forest[row][column - 1] + 1:
                    column -= 1
                elif left.leftmost[i] == start and right.leftmost[j] == begin:
                    pairs.append((left.nodes[i], right.nodes[j]))
                    row, column = row - 1, column - 1
                else:
                    trees.append((i, j))
                    row, column = left.leftmost[i] - start, right.leftmost[j] - begin
        return pairs
