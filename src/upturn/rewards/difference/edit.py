"""One edit of a tree."""

from typing import Literal

from upturn.records import record

EditKind = Literal["insert", "insert-tree", "delete", "delete-tree", "update", "move", "rename"]


@record
class Edit:
    """A step from one tree to another."""

    kind: EditKind
    """``insert`` and ``delete`` concern one node, ``insert-tree`` and ``delete-tree`` all below it as well;
    ``update`` changes the label; ``move`` takes a node with all below it to another place; ``rename`` is one name
    changed wherever it stands (``renaming``)."""
    before: int | None
    """Number of the node in the tree before; None for insertions."""
    after: int | None
    """Number of the node in the tree after; None for deletions."""
    position: int = 0
    """Of insertions and moves: place among the children of the parent when the step is taken."""
