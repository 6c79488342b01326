"""The first phase of GumTree (Falleri et al., ASE 2014, algorithm 1): equal subtrees, the largest first."""

from collections import defaultdict

from upturn.rewards.difference.mapping import Mapping

MIN_HEIGHT = 1
"""Lower subtrees (leaves) are too common: the same name in two places says nothing."""
MAX_CANDIDATES = 400
"""Pairs of equal subtrees that are compared with each other; of more, each takes the next in order."""


def link_equal_subtrees(mapping: Mapping, *, min_height: int = MIN_HEIGHT) -> None:
    """Links equal subtrees of at least this height that are not linked yet, the largest first.

    Subtrees that are unique on both sides come first. Among several, those are linked whose parents have most in
    common; ties are decided by position.
    """
    before, after = mapping.before, mapping.after
    groups_old = _groups(before.heights, before.identities, mapping.to_after, min_height)
    groups_new = _groups(after.heights, after.identities, mapping.to_before, min_height)
    ambiguous: list[tuple[list[int], list[int]]] = []
    for identity in sorted(groups_old, key=lambda key: (-before.heights[groups_old[key][0]], groups_old[key][0])):
        if identity not in groups_new:
            continue
        old = [node for node in groups_old[identity] if mapping.to_after[node] < 0]
        new = [node for node in groups_new[identity] if mapping.to_before[node] < 0]
        if len(old) == 1 and len(new) == 1:
            mapping.link_subtrees(old[0], new[0])
        elif old and new:
            ambiguous.append((old, new))
    known: dict[tuple[int, int], float] = {}
    for old, new in ambiguous:
        _link_ambiguous(mapping, old, new, known)


def _groups(heights: list[int], identities: list[int], partners: list[int], least: int) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for node, height in enumerate(heights):
        if height >= least and partners[node] < 0:
            groups[identities[node]].append(node)
    return groups


def _link_ambiguous(mapping: Mapping, old: list[int], new: list[int], known: dict[tuple[int, int], float]) -> None:
    old = [node for node in old if mapping.to_after[node] < 0]
    new = [node for node in new if mapping.to_before[node] < 0]
    if len(old) * len(new) > MAX_CANDIDATES:
        for one, other in zip(old, new, strict=False):
            mapping.link_subtrees(one, other)
        return
    ranked = sorted(
        (-_parents_in_common(mapping, one, other, known), abs(first - second), one, other)
        for first, one in enumerate(old)
        for second, other in enumerate(new)
    )
    for _, _, one, other in ranked:
        if mapping.to_after[one] < 0 and mapping.to_before[other] < 0:
            mapping.link_subtrees(one, other)


def _parents_in_common(mapping: Mapping, old: int, new: int, known: dict[tuple[int, int], float]) -> float:
    """1 where the parents are linked to each other, else their Dice similarity when it was first asked for."""
    parents = mapping.before.parents[old], mapping.after.parents[new]
    if min(parents) < 0:
        return 0.0
    if mapping.to_after[parents[0]] == parents[1]:
        return 1.0
    if parents not in known:
        known[parents] = mapping.dice(*parents)
    return known[parents]
