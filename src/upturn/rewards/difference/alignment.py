"""Partners below a linked pair: what is left of GumTree's recovery, and the anchors before its first phase.

``anchor`` runs first, from the roots down: an edit is usually local, so children in the same order with the same
content correspond, and a declaration of the same kind and name does. GumTree's phases then see only what is left:
large files with small edits cost little, and a subtree that occurs often is linked in its place. ``align`` is the
recovery: common subsequences of equal children, then of children that differ in labels alone, then children whose
kind is unique, and at last, for small pairs, the optimal mapping.
"""

from collections import Counter
from collections.abc import Hashable, Sequence

from upturn.rewards.difference.mapping import Mapping
from upturn.rewards.difference.node import Tree
from upturn.rewards.difference.sequence import common_subsequence
from upturn.rewards.difference.zhang_shasha import link_optimal

SMALL = 16
"""Nodes up to which a lone pair of one kind is anchored whatever it contains: one expression changed to another."""
SIMILAR = 0.4
"""Share of nodes in common from which a larger lone pair is anchored."""
MAX_OPTIMAL = 400
"""Product of the sizes up to which the optimal mapping is computed; 20 × 20 nodes take a millisecond."""


def anchor(mapping: Mapping, old: int = 0, new: int = 0) -> None:
    """Links the roots of these subtrees, if they are of one kind, and what obviously corresponds below them."""
    if mapping.before.kinds[old] != mapping.after.kinds[new]:
        return
    pairs = [(old, new)]
    while pairs:
        one, other = pairs.pop()
        if mapping.to_after[one] < 0 and mapping.to_before[other] < 0:
            mapping.link(one, other)
        _link_common(mapping, one, other)
        pairs += _named(mapping, one, other)
        pairs += _gaps(mapping, one, other)


def align(mapping: Mapping, old: int, new: int) -> None:
    """Links what is unlinked below a linked pair."""
    pairs = [(old, new)]
    while pairs:
        one, other = pairs.pop()
        _link_common(mapping, one, other)
        _link_common(mapping, one, other, by_shape=True)
        pairs += _unique_kinds(mapping, one, other)
        if mapping.before.sizes[one] * mapping.after.sizes[other] <= MAX_OPTIMAL:
            link_optimal(mapping, one, other)


def _unlinked(mapping: Mapping, old: int, new: int) -> tuple[list[int], list[int]]:
    return (
        [child for child in mapping.before.children[old] if mapping.to_after[child] < 0],
        [child for child in mapping.after.children[new] if mapping.to_before[child] < 0],
    )


def _link_common(mapping: Mapping, old: int, new: int, *, by_shape: bool = False) -> None:
    """Links the children without partner that form a common subsequence of equal subtrees, with all below them.

    ``by_shape``: they may differ in labels.
    """
    before, after = mapping.before, mapping.after
    left, right = _unlinked(mapping, old, new)
    if left and right:
        keys_old: list[Hashable] = [before.shape(node) if by_shape else before.identities[node] for node in left]
        keys_new: list[Hashable] = [after.shape(node) if by_shape else after.identities[node] for node in right]
        for one, other in common_subsequence(keys_old, keys_new):
            mapping.link_subtrees(left[one], right[other])


def _lone(old: Sequence[tuple[Hashable, int]], new: Sequence[tuple[Hashable, int]]) -> list[tuple[int, int]]:
    """Pairs of nodes whose key occurs once on each side."""
    counts_old, counts_new = Counter(key for key, _ in old), Counter(key for key, _ in new)
    nodes = {key: node for key, node in new if counts_new[key] == 1}
    return [(node, nodes[key]) for key, node in old if counts_old[key] == 1 and key in nodes]


def _unique_kinds(mapping: Mapping, old: int, new: int) -> list[tuple[int, int]]:
    left, right = _unlinked(mapping, old, new)
    before, after = mapping.before, mapping.after
    pairs = _lone([(before.kinds[node], node) for node in left], [(after.kinds[node], node) for node in right])
    for one, other in pairs:
        mapping.link(one, other)
    return pairs


def _named(mapping: Mapping, old: int, new: int) -> list[tuple[int, int]]:
    """Children that are alone with their kind and label, such as the functions of one name. Links them."""
    left, right = _unlinked(mapping, old, new)
    before, after = mapping.before, mapping.after
    pairs = _lone(
        [((before.kinds[node], before.labels[node]), node) for node in left if _is_named(before, node)],
        [((after.kinds[node], after.labels[node]), node) for node in right if _is_named(after, node)],
    )
    for one, other in pairs:
        mapping.link(one, other)
    return pairs


def _is_named(tree: Tree, node: int) -> bool:
    return bool(tree.labels[node] and tree.children[node])


def _gaps(mapping: Mapping, old: int, new: int) -> list[tuple[int, int]]:
    """Children between the same linked neighbours: as many on both sides, pairwise alike. Links them."""
    pairs: list[tuple[int, int]] = []
    left: list[int] = []
    right = iter(mapping.after.children[new])
    for node in (*mapping.before.children[old], -1):
        partner = mapping.to_after[node] if node >= 0 else -1
        if node >= 0 and partner < 0:
            left.append(node)
        elif node < 0 or mapping.after.parents[partner] == new:
            gap: list[int] = []
            for other in right:
                if other == partner:
                    break
                gap.append(other)
            free = [other for other in gap if mapping.to_before[other] < 0]
            if len(left) == len(free):
                pairs += [pair for pair in zip(left, free, strict=True) if _is_alike(mapping, *pair, len(left))]
            left = []
    for one, other in pairs:
        mapping.link(one, other)
    return pairs


def _is_alike(mapping: Mapping, old: int, new: int, count: int) -> bool:
    before, after = mapping.before, mapping.after
    if before.kinds[old] != after.kinds[new]:
        return False
    total = before.sizes[old] + after.sizes[new]
    if count == 1 and total <= 2 * SMALL:
        return True
    left = Counter(before.identities[old : old + before.sizes[old]])
    right = Counter(after.identities[new : new + after.sizes[new]])
    return 2 * (left & right).total() >= SIMILAR * total
