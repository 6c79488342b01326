"""The edit script of a mapping (Chawathe et al., SIGMOD 1996, figures 8 and 9), and its simplification.

As in GumTree, the labels of two linked roots are not compared: the root of a program has none.
"""

from collections.abc import Sequence

from upturn.rewards.difference.edit import Edit
from upturn.rewards.difference.mapping import Mapping
from upturn.rewards.difference.node import Tree
from upturn.rewards.difference.sequence import increasing


class _Copy:
    """The tree before, as the steps change it. Nodes that are inserted get numbers after the others."""

    def __init__(self, mapping: Mapping) -> None:
        before = mapping.before
        self.top = len(before)
        """The parent of both roots: a root may be inserted or deleted."""
        self.parents = [parent if parent >= 0 else self.top for parent in before.parents] + [-1]
        self.children = [list(below) for below in before.children] + [[0]]
        self.to_copy = list(mapping.to_before)
        """By node of the tree after: its node here; −1 = not inserted yet."""

    def place(self, node: int, parent: int, position: int) -> None:
        self.children[parent].insert(position, node)
        self.parents[node] = parent

    def take(self, node: int) -> None:
        self.children[self.parents[node]].remove(node)

    def add(self, new: int, parent: int, position: int) -> int:
        node = len(self.parents)
        self.parents.append(parent)
        self.children.append([])
        self.children[parent].insert(position, node)
        self.to_copy[new] = node
        return node


class _Writer:
    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.copy = _Copy(mapping)
        self.edits: list[Edit] = []
        self.in_order_old: set[int] = set()
        self.in_order_new: set[int] = set()

    def write(self) -> list[Edit]:
        before, after, copy = self.mapping.before, self.mapping.after, self.copy
        for new in after.breadth_first():
            parent = copy.to_copy[after.parents[new]] if new else copy.top
            node = copy.to_copy[new]
            if node < 0:
                position = self._position(new)
                self.edits.append(Edit("insert", None, new, position))
                node = copy.add(new, parent, position)
            elif new:
                if before.labels[node] != after.labels[new]:
                    self.edits.append(Edit("update", node, new))
                if copy.parents[node] != parent:
                    self._move(node, new, parent)
            elif copy.parents[node] != parent:
                self._move(node, new, parent)
            self.in_order_old.add(node)
            self.in_order_new.add(new)
            self._align_children(node, new)
        self.edits += [Edit("delete", old, None) for old in self._postorder() if self.mapping.to_after[old] < 0]
        return self.edits

    def _move(self, node: int, new: int, parent: int) -> None:
        position = self._position(new)
        self.edits.append(Edit("move", node, new, position))
        self.copy.take(node)
        self.copy.place(node, parent, position)

    def _align_children(self, node: int, new: int) -> None:
        copy, after = self.copy, self.mapping.after
        partners = {copy.to_copy[child]: child for child in after.children[new] if copy.to_copy[child] >= 0}
        stayed = [child for child in copy.children[node] if child in partners]
        if not stayed:
            return
        places = {child: place for place, child in enumerate(after.children[new])}
        kept = set(increasing([places[partners[child]] for child in stayed]))
        self.in_order_old.update(stayed[position] for position in kept)
        self.in_order_new.update(partners[stayed[position]] for position in kept)
        rest = [child for position, child in enumerate(stayed) if position not in kept]
        for child in sorted(rest, key=lambda moved: places[partners[moved]]):
            partner = partners[child]
            copy.take(child)
            position = self._position(partner)
            self.edits.append(Edit("move", child, partner, position))
            copy.place(child, node, position)
            self.in_order_old.add(child)
            self.in_order_new.add(partner)

    def _position(self, new: int) -> int:
        """After the nearest sibling to the left that is in order."""
        after, copy = self.mapping.after, self.copy
        if not new:
            return 0
        left = -1
        for sibling in after.children[after.parents[new]]:
            if sibling == new:
                break
            if sibling in self.in_order_new:
                left = sibling
        if left < 0:
            return 0
        node = copy.to_copy[left]
        return copy.children[copy.parents[node]].index(node) + 1

    def _postorder(self) -> list[int]:
        """Nodes of the tree before, children before their parents, in the order of the changed copy."""
        order, stack = [], [self.copy.top]
        while stack:
            node = stack.pop()
            order.append(node)
            stack += self.copy.children[node]
        order.reverse()
        return [node for node in order if node < self.copy.top]


def edit_script(mapping: Mapping) -> list[Edit]:
    """The steps to the tree after: insertions, updates and moves from the root down, then deletions."""
    return _Writer(mapping).write()


def simplified(mapping: Mapping, edits: Sequence[Edit]) -> list[Edit]:
    """The script with whole subtrees inserted or deleted in one step, in place of the step of their root."""
    inserted = {edit.after for edit in edits if edit.kind == "insert" and edit.after is not None}
    deleted = {edit.before for edit in edits if edit.kind == "delete" and edit.before is not None}
    whole_inserted = _whole(mapping.after, inserted)
    whole_deleted = _whole(mapping.before, deleted)
    kept: list[Edit] = []
    for edit in edits:
        if edit.kind == "insert" and edit.after is not None:
            if mapping.after.parents[edit.after] in whole_inserted:
                continue
            is_tree = edit.after in whole_inserted and bool(mapping.after.children[edit.after])
            kept.append(Edit("insert-tree", None, edit.after, edit.position) if is_tree else edit)
        elif edit.kind == "delete" and edit.before is not None:
            if mapping.before.parents[edit.before] in whole_deleted:
                continue
            is_tree = edit.before in whole_deleted and bool(mapping.before.children[edit.before])
            kept.append(Edit("delete-tree", edit.before, None) if is_tree else edit)
        else:
            kept.append(edit)
    return kept


def _whole(tree: Tree, changed: set[int]) -> set[int]:
    """Those of the nodes of which all nodes below are among them too."""
    whole: set[int] = set()
    for node in sorted(changed, reverse=True):
        if all(child in whole for child in tree.children[node]):
            whole.add(node)
    return whole


def without_moves(edits: Sequence[Edit]) -> list[Edit]:
    """The script with each update and each move as an insertion and a deletion."""
    plain: list[Edit] = []
    for edit in edits:
        if edit.kind == "update":
            plain += [Edit("insert", None, edit.after, edit.position), Edit("delete", edit.before, None)]
        elif edit.kind == "move":
            plain += [Edit("insert-tree", None, edit.after, edit.position), Edit("delete-tree", edit.before, None)]
        else:
            plain.append(edit)
    return plain
