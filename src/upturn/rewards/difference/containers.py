"""The second phase of GumTree: nodes of one kind with enough in common below them are linked (algorithm 2).

A linked pair is then aligned: ``alignment`` looks for partners of what is still without one below it.
"""

from collections.abc import Callable

from upturn.rewards.difference.alignment import align
from upturn.rewards.difference.mapping import Mapping, adaptive_threshold

Threshold = Callable[[Mapping, int, int], float]
MAX_WORK = 2_000_000
"""Nodes that are looked at, about a second; then the rest stays unlinked. Ordinary trees need 1 % of it."""


def link_containers(mapping: Mapping, *, threshold: Threshold = adaptive_threshold, recovers: bool = True) -> None:
    """Links unlinked nodes of the tree before, children first, to the most similar node of their kind.

    Similar: by ``Mapping.chawathe``, at least ``threshold``. The roots are always linked. ``recovers``: linked
    pairs are aligned.
    """
    before = mapping.before
    work = 0
    for old in before.postorder():
        if not before.children[old]:
            continue
        if mapping.to_after[old] >= 0:
            if recovers and _has_unlinked(mapping, old):
                align(mapping, old, mapping.to_after[old])
            continue
        best, best_similarity = -1, 0.0
        candidates = _candidates(mapping, old)
        work += before.sizes[old] * (1 + len(candidates))
        if work > MAX_WORK:
            return
        for new in candidates:
            similarity = mapping.chawathe(old, new)
            if similarity > best_similarity and similarity >= threshold(mapping, old, new):
                best, best_similarity = new, similarity
        if best >= 0:
            mapping.link(old, best)
            if recovers:
                align(mapping, old, best)
    if mapping.to_after[0] < 0 and mapping.to_before[0] < 0 and before.kinds[0] == mapping.after.kinds[0]:
        mapping.link(0, 0)
        if recovers:
            align(mapping, 0, 0)


def _has_unlinked(mapping: Mapping, old: int) -> bool:
    """Whether both nodes of a pair have children without partners."""
    return any(mapping.to_after[child] < 0 for child in mapping.before.children[old]) and any(
        mapping.to_before[child] < 0 for child in mapping.after.children[mapping.to_after[old]]
    )


def _candidates(mapping: Mapping, old: int) -> list[int]:
    """Unlinked nodes of the same kind above the partners of what is below ``old``, in order."""
    after, kind = mapping.after, mapping.before.kinds[old]
    seen: set[int] = set()
    for partner in mapping.to_after[old + 1 : old + mapping.before.sizes[old]]:
        node = after.parents[partner] if partner >= 0 else -1
        while node >= 0 and node not in seen:
            seen.add(node)
            node = after.parents[node]
    return sorted(node for node in seen if after.kinds[node] == kind and mapping.to_before[node] < 0)
