"""The phases give what GumTree's own tests expect of them, and scripts are the same in every run."""

import pytest

from tests.rewards.difference.gumtree_fixtures import (
    ACTION,
    BOTTOM_UP,
    DUMMY,
    GUMTREE,
    STABILITY,
    ZS,
    ZS_SLIDE,
    at,
    link,
    linked,
    pair,
    tree,
)
from upturn.rewards.difference.containers import link_containers
from upturn.rewards.difference.edit import Edit
from upturn.rewards.difference.mapping import Mapping
from upturn.rewards.difference.matching import tree_difference
from upturn.rewards.difference.node import Node, Tree, index_pair
from upturn.rewards.difference.script import edit_script, simplified, without_moves
from upturn.rewards.difference.subtrees import link_equal_subtrees
from upturn.rewards.difference.zhang_shasha import optimal_mapping

ACTION_PAIRS = (
    ("", ""),
    ("1", "0"),
    ("1.0", "0.0"),
    ("1.1", "0.1"),
    ("0", "1.0"),
    ("0.0", "1.0.0"),
    ("4", "3"),
    ("4.0", "3.0.0.0"),
)
ZS_PAIRS = (("", "0"), ("0", "0.0"), ("1", "0.1"), ("1.0", "0.1.0"), ("1.2", "0.1.2"), ("1.3", "0.1.3"))


def described(mapping: Mapping, edit: Edit) -> tuple[object, ...]:
    """Kind, label of the node, and for insertions and moves the label of the parent before, and the position."""
    before, after = mapping.before, mapping.after
    label = before.labels[edit.before] if edit.before is not None else after.labels[edit.after or 0]
    if edit.kind == "update":
        return edit.kind, label, after.labels[edit.after or 0]
    if edit.after is None:
        return edit.kind, label
    parent = after.parents[edit.after]
    if parent < 0:
        return edit.kind, label, None, edit.position
    partner = mapping.to_before[parent]
    return edit.kind, label, before.labels[partner] if partner >= 0 else after.labels[parent], edit.position


def all_described(mapping: Mapping, edits: list[Edit]) -> list[tuple[object, ...]]:
    return [described(mapping, edit) for edit in edits]


def test_similarities() -> None:
    before = tree(DUMMY)
    after = before._replace(children=(*before.children, Node("x", "x")))
    mapping = Mapping(*index_pair(before, after))
    mapping.link_subtrees(at(mapping.before, "0"), at(mapping.after, "0"))
    assert mapping.dice(0, 0) == 2 / 3
    assert mapping.jaccard(0, 0) == 0.5
    assert mapping.chawathe(0, 0) == 0.6
    assert mapping.overlap(0, 0) == 0.75


def test_equal_subtrees_by_least_height() -> None:
    mapping = pair(GUMTREE)
    link_equal_subtrees(mapping, min_height=0)
    assert set(mapping.pairs()) == linked(mapping, ("1", "0"), ("1.0", "0.0"), ("1.1", "0.1"), ("2", "2"))
    mapping = pair(GUMTREE)
    link_equal_subtrees(mapping, min_height=1)
    assert set(mapping.pairs()) == linked(mapping, ("1", "0"), ("1.0", "0.0"), ("1.1", "0.1"))


def test_containers_by_threshold() -> None:
    seeded = tuple((f"0.2.{place}", f"0.2.{place}") for place in range(4))
    mapping = link(pair(BOTTOM_UP), *seeded)
    link_containers(mapping, threshold=lambda *_: 1.0, recovers=False)
    assert set(mapping.pairs()) == linked(mapping, *seeded, ("", ""))
    mapping = link(pair(BOTTOM_UP), *seeded)
    link_containers(mapping, threshold=lambda *_: 0.5, recovers=False)
    assert set(mapping.pairs()) == linked(mapping, *seeded, ("", ""), ("0", "0"), ("0.2", "0.2"))
    mapping = link(pair(BOTTOM_UP), *seeded)
    link_containers(mapping, threshold=lambda *_: 0.5)
    more = (("", ""), ("0", "0"), ("0.0", "0.0"), ("0.1", "0.1"), ("0.2", "0.2"))
    assert set(mapping.pairs()) == linked(mapping, *seeded, *more)


def test_simplified_script_of_the_action_example() -> None:
    mapping = link(pair(ACTION), *ACTION_PAIRS)
    steps = simplified(mapping, edit_script(mapping))
    assert all_described(mapping, steps) == [
        ("insert", "h", "a", 2),
        ("insert-tree", "x", "a", 3),
        ("move", "e", "h", 0),
        ("insert", "u", "j", 0),
        ("update", "f", "y"),
        ("insert", "v", "u", 0),
        ("move", "k", "v", 0),
        ("delete-tree", "g"),
        ("delete", "i"),
    ]
    assert len(without_moves(steps)) == 12


def test_script_of_the_zs_example() -> None:
    mapping = link(pair(ZS), *ZS_PAIRS)
    expected = {
        ("insert", "z", None, 0),
        ("move", "a", "z", 0),
        ("insert", "y", "c", 1),
        ("update", "r1", "r2"),
        ("delete", "e"),
    }
    edits = edit_script(mapping)
    assert len(edits) == 5
    assert set(all_described(mapping, edits)) == expected
    steps = simplified(mapping, edits)
    assert set(all_described(mapping, steps)) == expected
    assert len(without_moves(steps)) == 7


def test_roots_that_are_not_linked_are_two_edits() -> None:
    mapping = Mapping(*index_pair(Node("foo"), Node("bar")))
    assert [edit.kind for edit in edit_script(mapping)] == ["insert", "delete"]


def test_swapped_children_are_one_move() -> None:
    mapping = link(pair(("root:(a: b:)", "root:(b: a:)")), ("", ""), ("0", "1"), ("1", "0"))
    assert [edit.kind for edit in edit_script(mapping)] == ["move"]


@pytest.mark.parametrize(
    ("texts", "distance", "paths"),
    [
        pytest.param(ZS, 4, ZS_PAIRS, id="zs"),
        pytest.param(
            ZS_SLIDE, 3, (("", ""), ("0.0", "0"), ("0.0.0", "0.0"), ("0.1", "1.0"), ("0.2", "2")), id="zs_slide"
        ),
    ],
)
def test_optimal_mapping(texts: tuple[str, str], distance: int, paths: tuple[tuple[str, str], ...]) -> None:
    mapping = pair(texts)
    optimal = optimal_mapping(mapping.before, mapping.after)
    assert set(optimal.pairs) == linked(mapping, *paths)
    assert len(optimal.pairs) == len(paths)
    assert optimal.distance == distance


def test_distance_of_the_paper_by_zhang_and_shasha() -> None:
    before, after = index_pair(tree("f(d(a c(b)) e)"), tree("f(c(d(a b)) e)"))
    assert optimal_mapping(before, after).distance == 2


def test_scripts_are_the_same_in_every_run() -> None:
    before, after = tree(STABILITY[0]), tree(STABILITY[1])
    scripts = {tree_difference(before, after).edits for _ in range(20)}
    assert len(scripts) == 1


def applied(mapping: Mapping, edits: list[Edit]) -> Node:
    """The tree before with the script carried out, by an independent implementation on nested lists."""
    before, after = mapping.before, mapping.after
    nodes: dict[tuple[str, int], list[object]] = {}
    top: list[object] = ["", "", []]

    def build(source: Tree, node: int) -> list[object]:
        made: list[object] = [source.kinds[node], source.labels[node], []]
        nodes["before", node] = made
        made[2] = [build(source, child) for child in source.children[node]]
        return made

    def node_of(new: int) -> list[object]:
        return nodes["before", mapping.to_before[new]] if mapping.to_before[new] >= 0 else nodes["after", new]

    def children(node: list[object]) -> list[list[object]]:
        below = node[2]
        assert isinstance(below, list)
        return below

    def take(node: list[object]) -> None:
        for holder in (top, *nodes.values()):
            kept = [child for child in children(holder) if child is not node]
            children(holder)[:] = kept

    top[2] = [build(before, 0)]
    for edit in edits:
        if edit.kind == "update":
            nodes["before", edit.before or 0][1] = after.labels[edit.after or 0]
        elif edit.kind == "delete":
            gone = nodes["before", edit.before or 0]
            assert not children(gone)
            take(gone)
        else:
            new = edit.after or 0
            if edit.kind == "insert":
                nodes["after", new] = [after.kinds[new], after.labels[new], []]
            made = node_of(new)
            take(made)
            parent = node_of(after.parents[new]) if new else top
            children(parent).insert(edit.position, made)

    def freeze(node: list[object]) -> Node:
        return Node(str(node[0]), str(node[1]), tuple(freeze(child) for child in children(node)))

    return freeze(children(top)[0])


@pytest.mark.parametrize("texts", [GUMTREE, BOTTOM_UP, STABILITY, ACTION, ZS_SLIDE])
def test_a_script_makes_the_tree_after_of_the_tree_before(texts: tuple[str, str]) -> None:
    mapping = tree_difference(tree(texts[0]), tree(texts[1])).mapping
    after = tree(texts[1])
    made = applied(mapping, edit_script(mapping))
    assert made.children == after.children
