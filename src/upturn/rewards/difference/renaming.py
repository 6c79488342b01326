"""One name for another, wherever it stands, is one edit.

Updates of the same name to the same name are one renaming where the old name no longer occurs after the change and
the new one did not occur before it: in the outermost function around them, else in the file. Otherwise each use is
an edit of its own: a variable that takes another's place is no renaming.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from upturn.rewards.difference.edit import Edit
from upturn.rewards.difference.mapping import Mapping
from upturn.rewards.difference.node import Tree

_FUNCTION = re.compile(r"function|method|FunctionDef|constructor|closure|lambda", re.IGNORECASE)
_NAMED = frozenset(
    {
        "Attribute", "AsyncFunctionDef", "ClassDef", "ExceptHandler", "FunctionDef", "Global", "MatchAs",
        "MatchStar", "Name", "Nonlocal", "alias", "double_star", "keyword", "keyword_only", "parameter",
        "position_only", "star",
    }
)  # fmt: skip
_FILE = (0, 0)
"""The roots as a scope."""
_SUFFIXES = ("identifier", "_declaration", "_definition", "_item", "_declarator")


def with_renamings(mapping: Mapping, edits: Sequence[Edit]) -> list[Edit]:
    """The script with one ``rename``, at the place of the first update, for all updates of a renaming."""
    before, after = mapping.before, mapping.after
    uses: dict[tuple[str, str], list[Edit]] = defaultdict(list)
    for edit in edits:
        if edit.kind == "update" and edit.before is not None and edit.after is not None:
            names = before.labels[edit.before], after.labels[edit.after]
            if _is_name(before, edit.before) and all(name.isidentifier() for name in names):
                uses[names].append(edit)
    merged: dict[Edit, Edit | None] = {}
    for names, updates in uses.items():
        is_file = _is_renamed(mapping, _FILE, names)
        for scope, group in ({_FILE: updates} if is_file else _by_function(mapping, updates)).items():
            if len(group) > 1 and (is_file or _is_renamed(mapping, scope, names)):
                merged[group[0]] = Edit("rename", group[0].before, group[0].after)
                merged.update(dict.fromkeys(group[1:]))
    return [kept for edit in edits if (kept := merged.get(edit, edit)) is not None]


def _is_name(tree: Tree, node: int) -> bool:
    return tree.kinds[node] in _NAMED or tree.kinds[node].endswith(_SUFFIXES)


def _is_renamed(mapping: Mapping, scope: tuple[int, int], names: tuple[str, str]) -> bool:
    """Whether below these two nodes the second name is new and the first one is gone."""
    before, after = mapping.before, mapping.after
    return not (
        _occurs(before, before.subtree(scope[0]), names[1]) or _occurs(after, after.subtree(scope[1]), names[0])
    )


def _occurs(tree: Tree, nodes: range, name: str) -> bool:
    labels = tree.labels
    return any(labels[node] == name and _is_name(tree, node) for node in nodes)


def _by_function(mapping: Mapping, updates: Iterable[Edit]) -> dict[tuple[int, int], list[Edit]]:
    """The updates by the outermost function around both nodes, which must be linked; others are left out."""
    groups: dict[tuple[int, int], list[Edit]] = defaultdict(list)
    for edit in updates:
        if edit.before is None or edit.after is None:
            continue
        scope, partner = _outermost(mapping.before, edit.before), _outermost(mapping.after, edit.after)
        if scope > 0 and mapping.to_after[scope] == partner:
            groups[scope, partner].append(edit)
    return groups


def _outermost(tree: Tree, node: int) -> int:
    """The outermost function at or above the node; −1 = there is none."""
    functions = [above for above in (node, *tree.ancestors(node)) if _FUNCTION.search(tree.kinds[above])]
    return functions[-1] if functions else -1
