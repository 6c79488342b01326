"""Languages other than Python, by tree-sitter: the extra ``upturn[diff]``, imported when a file needs it.

Comments and punctuation do not count. Words and operators without a node of their own (``async``, ``+``) are labels
of the node that they stand in, as the name of a declaration is.
"""

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from upturn.errors import ConfigError
from upturn.rewards.difference.node import Node

INSTALL = "pip install 'upturn[diff]'"


class _Grammar(NamedTuple):
    module: str
    function: str = "language"


GRAMMARS = {
    "javascript": _Grammar("tree_sitter_javascript"),
    "typescript": _Grammar("tree_sitter_typescript", "language_typescript"),
    "tsx": _Grammar("tree_sitter_typescript", "language_tsx"),
    "java": _Grammar("tree_sitter_java"),
    "go": _Grammar("tree_sitter_go"),
    "rust": _Grammar("tree_sitter_rust"),
    "c": _Grammar("tree_sitter_c"),
    "cpp": _Grammar("tree_sitter_cpp"),
}
_PUNCTUATION = frozenset("()[]{};,:.'\"`")
_QUOTES = "'\""


def require_language(language: str) -> None:
    """Raises ConfigError where the packages of the language are not installed."""
    missing = [name for name in ("tree_sitter", GRAMMARS[language].module) if find_spec(name) is None]
    if missing:
        packages = " and ".join(name.replace("_", "-") for name in missing)
        raise ConfigError([f"differences of {language} need {packages}, which is not installed: {INSTALL}"])


def grammar_tree(text: str, language: str) -> Node:
    """The tree of a file. Raises ConfigError as ``require_language`` does, ValueError where it does not parse."""
    root = _parser(language).parse(text.encode()).root_node
    if root.has_error:
        raise ValueError(f"this is no {language}: the first error is in line {_first_error(root)}")
    return _convert(root)


@lru_cache
def _parser(language: str) -> Any:
    require_language(language)
    tree_sitter = import_module("tree_sitter")
    grammar = GRAMMARS[language]
    pointer = getattr(import_module(grammar.module), grammar.function)()
    return tree_sitter.Parser(tree_sitter.Language(pointer))


def _first_error(root: Any) -> int:
    node = root
    while True:
        worse = [child for child in node.children if child.has_error or child.is_missing]
        if node.is_error or not worse:
            return int(node.start_point[0]) + 1
        node = worse[0]


def _convert(node: Any) -> Node:
    children = node.children
    line = node.start_point[0] + 1
    if not children:
        text = node.text.decode(errors="replace")
        return Node(node.type, "" if text.strip(_QUOTES) == "" else text, (), line)
    name = node.child_by_field_name("name")
    name_start = name.start_byte if name is not None and not name.children else -1
    labels: list[str] = []
    below: list[Node] = []
    for child in children:
        if not child.is_named:
            if not _PUNCTUATION.issuperset(child.type):
                labels.append(child.type)
        elif child.start_byte == name_start:
            labels.append(child.text.decode(errors="replace"))
        elif "comment" not in child.type:
            below.append(_convert(child))
    if node.type == "parenthesized_expression" and len(below) == 1:
        return below[0]
    return Node(node.type, " ".join(labels), tuple(below), line)
