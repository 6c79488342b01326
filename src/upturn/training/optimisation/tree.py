"""The token tree (prefix tree) of rows: common prefixes are stored, and later computed, once.

A node is a run of tokens shared by the same rows; a row is a path from a root to the end of a node. The flat layout
holds every node's tokens once, depth first, so the descendants of a node are one range after its own tokens. No
torch here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from upturn.training.row import IntArray

MIN_SHARED = 16
"""Minimum common prefix for a shared node: a node costs two calls of the attention kernel per layer (about 0.2 ms
forward and backward on a CPU core), the time of as many tokens of a small model."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenTree:
    """N tokens in M nodes."""

    token_ids: IntArray
    """``(N,)``"""
    depths: IntArray
    """``(N,)``: each token's position in its rows, from 0."""
    starts: IntArray
    """``(M,)``, ascending: node m holds the tokens ``starts[m]:stops[m]``."""
    stops: IntArray
    """``(M,)``"""
    subtree_stops: IntArray
    """``(M,)``: the descendants of node m hold the tokens ``stops[m]:subtree_stops[m]``; equal = none."""
    parents: IntArray
    """``(M,)``; −1 = a root."""


class PackedRows(NamedTuple):
    """A tree and the rows in it."""

    tree: TokenTree
    paths: tuple[IntArray, ...]
    """For each row: the tree positions of its tokens, in order."""


class _Branch(NamedTuple):
    """Sorted rows ``low:high`` with a common prefix of length ``depth``, to be added below the node ``parent``."""

    low: int
    high: int
    depth: int
    parent: int


def token_tree(rows: Sequence[IntArray], *, min_shared: int = MIN_SHARED) -> PackedRows:
    """The tree of rows, none of them empty. Rows share a node where at least ``min_shared`` tokens are common to
    all that pass through it (a shorter common run is laid out once for each branch after it).

    The layout does not depend on the order of the rows.
    """
    keys = [row.astype(">i8").tobytes() for row in rows]
    distinct = {key: np.asarray(row) for key, row in sorted(zip(keys, rows, strict=True), key=lambda pair: pair[0])}
    ordered = list(distinct.values())
    common = [common_length(first, second) for first, second in pairwise(ordered)]
    builder = _Builder(ordered, common, min_shared)
    paths = dict(zip(distinct, builder.paths(), strict=True))
    return PackedRows(builder.tree(), tuple(paths[key] for key in keys))


def common_length(first: IntArray, second: IntArray) -> int:
    """Length of the common prefix of two rows."""
    length = min(len(first), len(second))
    differing = np.flatnonzero(first[:length] != second[:length])
    return int(differing[0]) if len(differing) else length


class _Builder:
    """Lays out nodes depth first; rows are sorted and distinct."""

    def __init__(self, rows: Sequence[IntArray], common: Sequence[int], min_shared: int) -> None:
        """``common[i]``: length of the common prefix of the rows i and i + 1."""
        self.rows = rows
        self.common = common
        self.min_shared = min_shared
        self.runs: list[IntArray] = []
        self.depths: list[int] = []
        self.parents: list[int] = []
        self.nodes_of: list[list[int]] = [[] for _ in rows]
        pending = [_Branch(0, len(rows), 0, -1)]
        while pending:
            pending += reversed(self._grow(pending.pop()))

    def _grow(self, branch: _Branch) -> list[_Branch]:
        """Lays out the common run of a branch; returns the branches after it, in order."""
        low, high, depth, parent = branch
        row = self.rows[low]
        if high - low == 1:
            self._add(row[depth:], branch)
            return []
        inner = self.common[low : high - 1]
        shared = min(inner)
        if is_merged := shared - depth >= self.min_shared:
            parent = self._add(row[depth:shared], branch)
        cuts = [low, *(low + index + 1 for index, length in enumerate(inner) if length == shared), high]
        children = [_Branch(first, last, shared if is_merged else depth, parent) for first, last in pairwise(cuts)]
        # A row that ends at the branching point has no tokens left.
        return [child for child in children if len(self.rows[child.low]) > child.depth]

    def _add(self, run: IntArray, branch: _Branch) -> int:
        node = len(self.runs)
        self.runs.append(run)
        self.depths.append(branch.depth)
        self.parents.append(branch.parent)
        for index in range(branch.low, branch.high):
            self.nodes_of[index].append(node)
        return node

    def tree(self) -> TokenTree:
        lengths = np.array([len(run) for run in self.runs], dtype=np.int64)
        stops = np.cumsum(lengths)
        subtree_stops = stops.copy()
        for node in range(len(self.runs) - 1, -1, -1):
            parent = self.parents[node]
            if parent >= 0:
                subtree_stops[parent] = max(subtree_stops[parent], subtree_stops[node])
        return TokenTree(
            np.concatenate(self.runs).astype(np.int64),
            np.concatenate([np.arange(at, at + len(run)) for at, run in zip(self.depths, self.runs, strict=True)]),
            stops - lengths,
            stops,
            subtree_stops,
            np.array(self.parents, dtype=np.int64),
        )

    def paths(self) -> list[IntArray]:
        """The path of each sorted row."""
        starts = np.cumsum([0, *(len(run) for run in self.runs)])
        return [
            np.concatenate([np.arange(starts[node], starts[node + 1]) for node in nodes]) for nodes in self.nodes_of
        ]
