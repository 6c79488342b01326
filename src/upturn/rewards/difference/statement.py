"""How many statements a script changes.

A statement that is changed, inserted or deleted counts once, with all that changes in it; what lies in an inserted
or deleted statement counts with it, also what was moved into or out of it. A deletion and an insertion in the same
block are one statement replaced.
"""

from collections import Counter
from collections.abc import Iterable

from upturn.rewards.difference.edit import Edit
from upturn.rewards.difference.mapping import Mapping
from upturn.rewards.difference.node import Tree
from upturn.rewards.difference.python import STATEMENTS

_SUFFIXES = ("_statement", "_declaration", "_definition", "_item")


def is_statement(kind: str) -> bool:
    """Whether nodes of this kind are statements or declarations."""
    return kind in STATEMENTS or kind.endswith(_SUFFIXES)


def count_statements(mapping: Mapping, edits: Iterable[Edit]) -> int:
    """Statements that the edits change."""
    changes = _Changes(mapping)
    for edit in edits:
        changes.add(edit)
    blocks_in = Counter(_block(mapping.after, mapping.to_before, node) for node in changes.inserted)
    blocks_out = Counter(mapping.before.parents[node] for node in changes.deleted)
    replaced = sum((blocks_in & blocks_out).values())
    return len(changes.changed) + len(changes.inserted) + len(changes.deleted) - replaced


class _Changes:
    """Statements by what happens to them."""

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.changed: set[int] = set()
        """By node before; 0, the root, stands for what lies in no statement."""
        self.inserted: set[int] = set()
        self.deleted: set[int] = set()

    def add(self, edit: Edit) -> None:
        """Adds the statement that an edit concerns."""
        if edit.before is None:
            if edit.after is not None and not self._is_inserted(edit.after):
                above = _statement(self.mapping.after, edit.after)
                self.changed.add(self.mapping.to_before[above] if above >= 0 else 0)
        elif edit.kind == "move" and edit.after is not None:
            into, out_of = self.mapping.after.parents[edit.after], self.mapping.before.parents[edit.before]
            if not self._is_inserted(into) and not self._is_deleted(out_of):
                self.changed.add(max(_statement(self.mapping.before, edit.before), 0))
        elif not self._is_deleted(edit.before):
            self.changed.add(max(_statement(self.mapping.before, edit.before), 0))

    def _is_inserted(self, node: int) -> bool:
        """Whether the node after lies in an inserted statement, which is added."""
        above = _statement(self.mapping.after, node)
        if above < 0 or self.mapping.to_before[above] >= 0:
            return False
        self.inserted.add(_top(self.mapping.after, self.mapping.to_before, above))
        return True

    def _is_deleted(self, node: int) -> bool:
        """Whether the node before lies in a deleted statement, which is added."""
        above = _statement(self.mapping.before, node)
        if above < 0 or self.mapping.to_after[above] >= 0:
            return False
        self.deleted.add(_top(self.mapping.before, self.mapping.to_after, above))
        return True


def _statement(tree: Tree, node: int) -> int:
    """The innermost statement at or above the node; −1 = there is none."""
    while node >= 0 and not is_statement(tree.kinds[node]):
        node = tree.parents[node]
    return node


def _top(tree: Tree, partners: list[int], node: int) -> int:
    """The outermost statement around it that is reached over statements without partners alone."""
    above = _statement(tree, tree.parents[node])
    while above >= 0 and partners[above] < 0:
        node = above
        above = _statement(tree, tree.parents[above])
    return node


def _block(after: Tree, to_before: list[int], node: int) -> int:
    """The block of the tree before that an inserted statement stands in; −1 = its block is inserted as well."""
    parent = after.parents[node]
    return to_before[parent] if parent >= 0 else -1
