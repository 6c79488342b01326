"""The layout of token trees."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.training.optimisation.tree import PackedRows, token_tree
from upturn.training.row import IntArray

QUICK = settings(max_examples=200, deadline=None)


def _rows(*rows: list[int]) -> list[IntArray]:
    return [np.array(row, dtype=np.int64) for row in rows]


def test_a_common_prefix_is_laid_out_once_before_its_branches() -> None:
    tree, paths = token_tree(_rows([1, 2, 9], [1, 2, 3, 4, 5], [7], [1, 2, 3, 4, 6, 6]), min_shared=1)
    # 1 2 │ 3 4 │ 5          7
    #     │     └ 6 6
    #     └ 9
    assert tree.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 6, 9, 7]
    assert tree.depths.tolist() == [0, 1, 2, 3, 4, 4, 5, 2, 0]
    assert tree.starts.tolist() == [0, 2, 4, 5, 7, 8]
    assert tree.stops.tolist() == [2, 4, 5, 7, 8, 9]
    assert tree.subtree_stops.tolist() == [8, 7, 5, 7, 8, 9]
    assert tree.parents.tolist() == [-1, 0, 1, 1, 0, -1]
    assert [path.tolist() for path in paths] == [[0, 1, 7], [0, 1, 2, 3, 4], [8], [0, 1, 2, 3, 5, 6]]


def test_a_short_common_run_is_laid_out_for_each_branch() -> None:
    tree, paths = token_tree(_rows([1, 2, 9], [1, 2, 3, 4, 5], [1, 2, 3, 4, 6]), min_shared=3)
    # two tokens common to all are too few, four common to two rows are enough
    assert tree.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 1, 2, 9]
    assert tree.parents.tolist() == [-1, 0, 0, -1]
    assert [path.tolist() for path in paths] == [[6, 7, 8], [0, 1, 2, 3, 4], [0, 1, 2, 3, 5]]


def test_a_row_that_is_a_prefix_of_another_needs_no_node() -> None:
    tree, paths = token_tree(_rows([1, 2, 3], [1, 2], [1, 2]), min_shared=1)
    assert tree.token_ids.tolist() == [1, 2, 3]
    assert [path.tolist() for path in paths] == [[0, 1, 2], [0, 1], [0, 1]]


def test_one_row_is_one_node() -> None:
    tree, paths = token_tree(_rows([4, 4]))
    assert (tree.token_ids.tolist(), tree.starts.tolist(), tree.parents.tolist()) == ([4, 4], [0], [-1])
    assert paths[0].tolist() == [0, 1]


def test_a_thousand_nested_rows_do_not_recurse() -> None:
    rows = [np.arange(length) for length in range(1, 1500)]
    tree, _ = token_tree(rows, min_shared=1)
    assert tree.token_ids.tolist() == list(range(1499))


ROWS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12)


def _ancestors(packed: PackedRows, node: int) -> list[int]:
    nodes = []
    while node >= 0:
        nodes.append(node)
        node = int(packed.tree.parents[node])
    return nodes[::-1]


@QUICK
@given(ROWS, st.integers(1, 5))
def test_every_path_gives_its_row_and_sibling_nodes_differ(rows: list[list[int]], min_shared: int) -> None:
    packed = token_tree(_rows(*rows), min_shared=min_shared)
    tree, paths = packed
    for row, path in zip(rows, paths, strict=True):
        assert tree.token_ids[path].tolist() == row
        assert tree.depths[path].tolist() == list(range(len(row)))
        nodes = np.searchsorted(tree.stops, path, side="right")
        chain = _ancestors(packed, int(nodes[-1]))
        assert list(dict.fromkeys(nodes.tolist())) == chain
        for node in chain[:-1]:  # a row's last token is in the range of each ancestor's descendants
            assert tree.stops[node] <= path[-1] < tree.subtree_stops[node]
    assert (tree.starts[1:] == tree.stops[:-1]).all()
    assert set(np.concatenate(paths).tolist()) == set(range(len(tree.token_ids)))
    if min_shared == 1:
        prefixes = {tuple(row[: length + 1]) for row in rows for length in range(len(row))}
        assert len(tree.token_ids) == len(prefixes)


@QUICK
@given(ROWS, st.randoms())
def test_the_layout_does_not_depend_on_the_order_of_rows(rows: list[list[int]], random: object) -> None:
    shuffled = sorted(rows, key=lambda _: random.random())  # type: ignore[attr-defined]
    first, second = token_tree(_rows(*rows)).tree, token_tree(_rows(*shuffled)).tree
    assert first.token_ids.tolist() == second.token_ids.tolist()
    assert first.parents.tolist() == second.parents.tolist()
