"""GumTree (Falleri et al., ASE 2014): which nodes of two trees correspond, and the edits that follow."""

from typing import NamedTuple

from upturn.rewards.difference.alignment import anchor
from upturn.rewards.difference.containers import link_containers
from upturn.rewards.difference.edit import Edit
from upturn.rewards.difference.mapping import Mapping
from upturn.rewards.difference.node import Node, index_pair
from upturn.rewards.difference.renaming import with_renamings
from upturn.rewards.difference.script import edit_script, simplified
from upturn.rewards.difference.statement import count_statements
from upturn.rewards.difference.subtrees import link_equal_subtrees


class TreeDifference(NamedTuple):
    """How two trees differ."""

    mapping: Mapping
    edits: tuple[Edit, ...]
    """Node by node, renamings merged. Empty = the trees are the same."""
    statements: int
    """Statements that change."""

    @property
    def steps(self) -> list[Edit]:
        """The edits with whole subtrees inserted or deleted in one step, to be read."""
        return simplified(self.mapping, self.edits)


def match(before: Node, after: Node) -> Mapping:
    """The corresponding nodes: what is in its place, equal subtrees, containers, and what is left in them."""
    mapping = Mapping(*index_pair(before, after))
    if mapping.before.identities[0] == mapping.after.identities[0]:
        mapping.link_subtrees(0, 0)
        return mapping
    anchor(mapping)
    link_equal_subtrees(mapping)
    link_containers(mapping)
    return mapping


def tree_difference(before: Node, after: Node) -> TreeDifference:
    """The edits from the one tree to the other; the same for the same trees."""
    mapping = match(before, after)
    if mapping.before.identities[0] == mapping.after.identities[0]:
        return TreeDifference(mapping, (), 0)
    edits = with_renamings(mapping, edit_script(mapping))
    return TreeDifference(mapping, tuple(edits), count_statements(mapping, edits))
