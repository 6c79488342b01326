"""How two versions of a program differ: edits of syntax trees, statements, lines, files and tests.

Start with ``patch``: it compares two folders or two mappings of files; ``excess`` gives the reward for a small
patch. ``matching`` is the algorithm on trees (GumTree): ``node`` the tree, ``alignment``, ``subtrees``,
``containers`` and ``zhang_shasha`` the phases that fill a ``mapping``, ``script`` the edits (Chawathe),
``renaming`` and ``statement`` what is counted of them. ``python`` and ``grammar`` make trees of source code,
``source`` picks one of them. Not here: whether a change is right, or allowed.
"""

from upturn.rewards.difference.edit import Edit
from upturn.rewards.difference.excess import excess, minimal_difference
from upturn.rewards.difference.grammar import require_language
from upturn.rewards.difference.matching import TreeDifference, match, tree_difference
from upturn.rewards.difference.node import Node
from upturn.rewards.difference.patch import (
    FileDifference,
    PatchDifference,
    compare_file,
    compare_patch,
    is_test_path,
    read_folder,
)
from upturn.rewards.difference.source import language_of, parse

__all__ = [
    "Edit",
    "FileDifference",
    "Node",
    "PatchDifference",
    "TreeDifference",
    "compare_file",
    "compare_patch",
    "excess",
    "is_test_path",
    "language_of",
    "match",
    "minimal_difference",
    "parse",
    "read_folder",
    "require_language",
    "tree_difference",
]
