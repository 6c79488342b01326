"""The tree, its proofs and their verification, on the public vectors and against a slow implementation.

Vectors: github.com/transparency-dev/merkle, ``log_verifier_test.go`` and ``testonly/reference_test.go`` (formerly
google/trillian ``merkle/testonly/constants.go``), which are those of the reference implementation of Certificate
Transparency, github.com/google/certificate-transparency.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import pytest

from upturn.pool.audit.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    TILE_LEVELS,
    Frontier,
    NodeAt,
    TreeHead,
    consistency_proof,
    inclusion_proof,
    is_consistent,
    is_included,
    leaf_hash,
    node_hash,
    root_of,
)

LEAVES = [
    bytes.fromhex(text)
    for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"
    )
]  # fmt: skip

NODES = [
    [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "0298d122906dcfc10892cb53a73992fc5b9f493ea4c9badb27b791b4127a7fe7",
        "07506a85fd9dd2f120eb694f86011e5bb4662e5c415a62917033d4a9624487e7",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "4271a26be0d8a84f0bd54c8c302e7cb3a3b5d1fa6780a40bcce2873477dab658",
        "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f",
        "46f6ffadd3d06a09ff3c5860d2755c8b9819db7df44251788c7d8e3180de8eb1",
    ],
    [
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
    ],
    [
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    ["5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"],
]
"""By level and index."""

ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""By size of the tree."""

INCLUSION = {
    (0, 1): [],
    (0, 8): [NODES[0][1], NODES[1][1], NODES[2][1]],
    (5, 8): [NODES[0][4], NODES[1][3], NODES[2][0]],
    (2, 3): [NODES[1][0]],
    (1, 5): [NODES[0][0], NODES[1][1], NODES[0][4]],
}
"""Path by index and size."""

CONSISTENCY = {
    (1, 1): [],
    (1, 8): [NODES[0][1], NODES[1][1], NODES[2][1]],
    (6, 8): [NODES[1][2], NODES[1][3], NODES[2][0]],
    (2, 5): [NODES[1][1], NODES[0][4]],
    (6, 7): [NODES[1][2], NODES[0][6], NODES[2][0]],
}
"""Path by both sizes."""

SOME_HASH = bytes.fromhex("abacaba000000000000000000000000000000000000000000060061e00123456")


def raw(texts: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


def head(size: int) -> TreeHead:
    return TreeHead(size, root(size))


def root(size: int) -> bytes:
    return bytes.fromhex(ROOTS[size])


def reference_node(level: int, index: int) -> bytes:
    return bytes.fromhex(NODES[level][index])


def nodes_of(leaves: Sequence[bytes]) -> NodeAt:
    """Returns the nodes of a tree over hashes of leaves, computed level by level."""
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        last = levels[-1]
        levels.append([node_hash(last[i], last[i + 1]) for i in range(0, len(last) - 1, 2)])
    return lambda level, index: levels[level][index]


def slow_root(leaves: Sequence[bytes]) -> bytes:
    """MTH of section 2.1.1, word for word."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return sha256(b"\x01" + slow_root(leaves[:k]) + slow_root(leaves[k:])).digest()


def test_the_tree_has_the_published_hashes() -> None:
    frontier = Frontier()
    assert frontier.root() == EMPTY_ROOT == root(0)
    for size, leaf in enumerate(LEAVES, start=1):
        assert leaf_hash(leaf).hex() == NODES[0][size - 1]
        frontier.append(leaf_hash(leaf))
        assert frontier.root() == root(size) == root_of(size, reference_node)
    computed = nodes_of([leaf_hash(leaf) for leaf in LEAVES])
    for level, hashes in enumerate(NODES):
        assert [computed(level, index).hex() for index in range(len(hashes))] == hashes


@pytest.mark.parametrize(("index", "size"), INCLUSION)
def test_published_inclusion_proofs(index: int, size: int) -> None:
    path = raw(INCLUSION[index, size])
    assert inclusion_proof(index, size, reference_node) == path
    assert is_included(leaf_hash(LEAVES[index]), index, head(size), path)
    for wrong in wrong_inclusions(index, size, path):
        assert not is_included(*wrong), wrong


@pytest.mark.parametrize(("first", "second"), CONSISTENCY)
def test_published_consistency_proofs(first: int, second: int) -> None:
    path = raw(CONSISTENCY[first, second])
    assert consistency_proof(first, second, reference_node) == path
    assert is_consistent(head(first), head(second), path)
    for wrong in wrong_consistencies(first, second, path) if path else ():
        assert not is_consistent(*wrong), wrong


def wrong_paths(path: list[bytes], *others: bytes) -> Iterator[list[bytes]]:
    for other in (b"", *others):
        yield [*path, other]
        yield [other, *path]
    for position, part in enumerate(path):
        yield [*path[:position], bytes([part[0] ^ 8]) + part[1:], *path[position + 1 :]]
        yield path[:position]


def wrong_inclusions(
    index: int, size: int, path: list[bytes]
) -> Iterator[tuple[bytes, int, TreeHead, list[bytes]]]:
    """The mutations of the reference test."""
    leaf = leaf_hash(LEAVES[index])
    for other in (index - 1, index + 1, index ^ 2):
        yield leaf, other, head(size), path
    for other in (size * 2, size // 2):
        yield leaf, index, TreeHead(other, root(size)), path
    yield b"WrongLeaf", index, head(size), path
    for wrong in (EMPTY_ROOT, SOME_HASH, b""):
        yield leaf, index, TreeHead(size, wrong), path
    for wrong_path in wrong_paths(path, root(size)):
        yield leaf, index, head(size), wrong_path


def wrong_consistencies(
    first: int, second: int, path: list[bytes]
) -> Iterator[tuple[TreeHead, TreeHead, list[bytes]]]:
    """The mutations of the reference test."""
    one, two = head(first), head(second)
    for other in (first - 1, first + 1, first ^ 2):
        yield TreeHead(other, one.root), two, path
    for other in (second * 2, second // 2):
        yield one, TreeHead(other, two.root), path
    yield TreeHead(first, b"WrongRoot"), two, path
    yield one, TreeHead(second, b"WrongRoot"), path
    yield TreeHead(first, two.root), TreeHead(second, one.root), path
    yield one, two, []
    for wrong_path in wrong_paths(path, one.root, two.root, path[0]):
        yield one, two, wrong_path


def test_trivial_proofs_of_the_reference() -> None:
    one, two = sha256(b"1").digest(), sha256(b"2").digest()
    for first, second, before, after in ((0, 0, one, one), (0, 1, one, two), (1, 1, two, two)):
        assert is_consistent(TreeHead(first, before), TreeHead(second, after), [])
    for first, second in ((0, 0), (1, 1), (1, 0), (2, 1), (1, 2)):
        assert not is_consistent(TreeHead(first, one), TreeHead(second, two), [])
    for first, second in ((0, 0), (0, 1), (1, 1)):
        assert not is_consistent(TreeHead(first, EMPTY_ROOT), TreeHead(second, EMPTY_ROOT), [EMPTY_ROOT])
    for index, size in ((0, 0), (1, 0), (2, 1)):
        assert not is_included(SOME_HASH, index, TreeHead(size, EMPTY_ROOT), [])


def test_every_proof_of_trees_up_to_seventy_leaves() -> None:
    leaves = [leaf_hash(bytes([number])) for number in range(70)]
    node_at = nodes_of(leaves)
    heads = [TreeHead(size, slow_root(leaves[:size])) for size in range(71)]
    for size in range(71):
        assert root_of(size, node_at) == heads[size].root
        for index in range(size):
            path = inclusion_proof(index, size, node_at)
            assert is_included(leaves[index], index, heads[size], path)
            assert len(path) <= (size - 1).bit_length()
        for first in range(size + 1):
            path = consistency_proof(first, size, node_at)
            assert is_consistent(heads[first], heads[size], path)
            assert first in (0, size) or not is_consistent(TreeHead(first, SOME_HASH), heads[size], path)


def test_a_frontier_goes_on_from_its_peaks_and_returns_the_nodes_to_keep() -> None:
    leaves = [leaf_hash(number.to_bytes(4)) for number in range((1 << 2 * TILE_LEVELS) + 3)]
    node_at = nodes_of(leaves)
    frontier, kept = Frontier(), []
    for leaf in leaves:
        kept += frontier.append(leaf)
    assert [(node.level, node.number) for node in kept if node.level != TILE_LEVELS] == [(2 * TILE_LEVELS, 0)]
    assert len(kept) == 256 + 1
    assert all(node_at(node.level, node.number) == node.hash for node in kept)
    assert len(frontier.peaks) == 3 * HASH_BYTES, "65,539 has three bits"
    again = Frontier(frontier.size, frontier.peaks)
    again.append(leaves[0])
    frontier.append(leaves[0])
    assert again.root() == frontier.root()
