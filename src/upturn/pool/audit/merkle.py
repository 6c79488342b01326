"""The Merkle tree of RFC 9162, section 2.1 (as in RFC 6962): its root, proofs of it, and their verification.

Hashes are 32 bytes of SHA-256. A leaf is hashed after the byte 0, an inner node after the byte 1, so that neither
can be taken for the other. A node is named by level and index: that of level L and index I covers the leaves from
``I << L`` to ``(I + 1) << L``. Pure: where the hashes are stored is the business of ``log``.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeAlias

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()
"""Root of a tree without leaves."""

TILE_LEVELS = 8
"""Hashes of every eighth level are kept: those in between follow from at most 256 of them (C2SP tlog-tiles)."""

NodeAt: TypeAlias = Callable[[int, int], bytes]
"""Returns the hash of the node at a level and an index; it is called for nodes with all of their leaves only."""


def leaf_hash(entry: bytes) -> bytes:
    """Returns the hash of a leaf."""
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Returns the hash of the node above two nodes."""
    return sha256(b"\x01" + left + right).digest()


class TreeHead(NamedTuple):
    """What a tree is known by."""

    size: int
    """Number of leaves."""
    root: bytes


class TileNode(NamedTuple):
    """A node at a level that is a multiple of ``TILE_LEVELS``, with all of its leaves."""

    level: int
    number: int
    """Its index at the level."""
    hash: bytes


class Frontier:
    """A tree that grows, by the roots of its largest complete subtrees alone. Not safe to share between threads."""

    def __init__(self, size: int = 0, peaks: bytes = b"") -> None:
        """``peaks``: what ``peaks`` returned for a tree of ``size`` leaves."""
        assert len(peaks) == size.bit_count() * HASH_BYTES, "there is one peak for each bit of the size"
        self.size = size
        self._peaks = [peaks[start : start + HASH_BYTES] for start in range(0, len(peaks), HASH_BYTES)]

    @property
    def peaks(self) -> bytes:
        """The hashes of the largest complete subtrees, from the left."""
        return b"".join(self._peaks)

    def append(self, leaf: bytes) -> list[TileNode]:
        """Adds the hash of the next leaf; returns the inner nodes to keep that it completes, in O(1) amortised."""
        kept: list[TileNode] = []
        node, level, index = leaf, 0, self.size
        while index & 1:
            node, level, index = node_hash(self._peaks.pop(), node), level + 1, index >> 1
            if level % TILE_LEVELS == 0:
                kept.append(TileNode(level, index, node))
        self._peaks.append(node)
        self.size += 1
        return kept

    def head(self) -> TreeHead:
        """Returns size and root."""
        return TreeHead(self.size, self.root())

    def root(self) -> bytes:
        """Returns the root of the tree."""
        if not self._peaks:
            return EMPTY_ROOT
        root = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            root = node_hash(peak, root)
        return root


def root_of(size: int, node_at: NodeAt) -> bytes:
    """Returns the root of the first ``size`` leaves."""
    return _range_root(0, size, node_at) if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, node_at: NodeAt) -> list[bytes]:
    """Returns PATH(index, D[size]) of section 2.1.3.1: the hashes beside the way from the leaf to the root."""
    assert 0 <= index < size, "the leaf is in the tree"
    start, end = 0, size
    path: list[bytes] = []
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_range_root(middle, end, node_at))
            end = middle
        else:
            path.append(_range_root(start, middle, node_at))
            start = middle
    return path[::-1]


def consistency_proof(first: int, second: int, node_at: NodeAt) -> list[bytes]:
    """Returns PROOF(first, D[second]) of section 2.1.4.1; empty for equal sizes and for an empty first tree."""
    assert 0 <= first <= second, "the first tree is a part of the second"
    start, end = 0, second
    is_whole = True
    """Whether the first tree is a subtree of the second, whose root the verifier has."""
    path: list[bytes] = []
    if first == 0:
        return path
    while first != end:
        middle = start + _split(end - start)
        if first <= middle:
            path.append(_range_root(middle, end, node_at))
            end = middle
        else:
            path.append(_range_root(start, middle, node_at))
            start, is_whole = middle, False
    if not is_whole:
        path.append(_range_root(start, end, node_at))
    return path[::-1]


def is_included(leaf: bytes, index: int, tree: TreeHead, path: Sequence[bytes]) -> bool:
    """Returns whether the path proves that the leaf with this hash is in the tree: section 2.1.3.2."""
    size, root = tree
    if not 0 <= index < size or any(len(part) != HASH_BYTES for part in (leaf, root, *path)):
        return False
    node, last = index, size - 1
    computed = leaf
    for part in path:
        if last == 0:
            return False
        if node & 1 or node == last:
            computed = node_hash(part, computed)
            while not node & 1 and node != 0:
                node, last = node >> 1, last >> 1
        else:
            computed = node_hash(computed, part)
        node, last = node >> 1, last >> 1
    return last == 0 and computed == root


def is_consistent(before: TreeHead, after: TreeHead, path: Sequence[bytes]) -> bool:
    """Returns whether the path proves that the first tree is the beginning of the second: section 2.1.4.2."""
    (first, first_root), (second, second_root) = before, after
    if not 0 <= first <= second or any(len(part) != HASH_BYTES for part in (first_root, second_root, *path)):
        return False
    if first == second:
        return not path and first_root == second_root
    if first == 0:
        return not path
    if not path:
        return False
    parts = [first_root, *path] if first & (first - 1) == 0 else list(path)
    node, last = first - 1, second - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    of_first = of_second = parts[0]
    for part in parts[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            of_first, of_second = node_hash(part, of_first), node_hash(part, of_second)
            while not node & 1 and node != 0:
                node, last = node >> 1, last >> 1
        else:
            of_second = node_hash(of_second, part)
        node, last = node >> 1, last >> 1
    return last == 0 and of_first == first_root and of_second == second_root


def _split(size: int) -> int:
    """Returns the largest power of two below ``size``, which is at least 2."""
    return 1 << (size - 1).bit_length() - 1


def _range_root(start: int, end: int, node_at: NodeAt) -> bytes:
    """Returns the root of the leaves from ``start`` to ``end``, a right part of a tree or a whole one."""
    size = end - start
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return node_at(level, start >> level)
    middle = start + _split(size)
    return node_hash(_range_root(start, middle, node_at), _range_root(middle, end, node_at))
