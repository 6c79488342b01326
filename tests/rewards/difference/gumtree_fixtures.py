"""Trees of GumTree's tests, and helpers that address their nodes.

The data are those of ``core/src/test/resources`` of https://github.com/GumTreeDiff/gumtree: ``action_v0``,
``action_v1`` (83062eee), ``gumtree_v0``, ``gumtree_v1`` (9d6afddc), ``bottom_up_v0``, ``bottom_up_v1`` (965843db),
``zs_v0``, ``zs_v1`` (efc897fa), ``zs_slide_v0`` (db8e821b), ``zs_slide_v1`` (9f1fb1ef), ``Dummy_v0`` (144d2e0d),
and the trees of ``TestStability`` (272180b9); written here as ``kind:label(child child)``, kind ``0`` where none is
given.
"""

import re

from upturn.rewards.difference.mapping import Mapping
from upturn.rewards.difference.node import Node, Tree, index_pair

ACTION = ("a(e(f) b(c d) g(h) i j(k))", "z(b(c d) h(e(y)) x(w) j(u(v(k))))")
GUMTREE = ("a(e(f) b(c d) g)", "z(b(c d) 1:h(e(y)) g)")
BOTTOM_UP = (
    "td:(md:(vis:public name:foo block:(s:s1 s:s2 s:s3 s:s4)))",
    "td:(md:(vis:private name:bar block:(s:s1 s:s2 s:s3 s:s4 s:s5)))",
)
ZS = ("a(b c(d e f r1))", "z(a(b c(d 1:y f r2)))")
ZS_SLIDE = ("6(5(2(1) 3 4))", "6(2(1) 4(3) 5)")
DUMMY = "a(1:b(3:c 3:d) 2:e)"
STABILITY = (
    "Function:(If:(GreaterThan:(Call:(Empty: Identifier:delete Identifier:value) Integer:1)"
    " Call:(Empty: Identifier:move Identifier:value TextElement:) Return:(Boolean:) Return:(Boolean:))"
    " Identifier:update Annotation:(Identifier:value Identifier:str))",
    "Function:(If:(GreaterThan:(Call:(Empty: Identifier:add Identifier:value) Integer:10)"
    " Call:(Empty: Identifier:move Identifier:value TextElement:) Return:(Boolean:)"
    " Return:(Call:(Empty: Identifier:map Identifier:value)))"
    " Identifier:update Annotation:(Identifier:value Identifier:str))",
)


def tree(text: str) -> Node:
    """The tree that the text describes."""
    tokens = re.findall(r"[^\s()]+|[()]", text)
    stack: list[list[Node]] = [[]]
    names: list[tuple[str, str]] = []
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if token == "(":
            stack.append([])
        elif token == ")":
            kind, label = names.pop()
            children = stack.pop()
            stack[-1].append(Node(kind, label, tuple(children)))
        else:
            kind, separator, label = token.partition(":")
            name = (kind, label) if separator else ("0", kind)
            if following == "(":
                names.append(name)
            else:
                stack[-1].append(Node(*name))
    return stack[0][0]


def pair(texts: tuple[str, str]) -> Mapping:
    """The empty mapping of two trees."""
    return Mapping(*index_pair(tree(texts[0]), tree(texts[1])))


def at(source: Tree, path: str) -> int:
    """The node at a path of child positions, such as ``1.0``; the empty path is the root."""
    node = 0
    for position in filter(None, path.split(".")):
        node = source.children[node][int(position)]
    return node


def link(mapping: Mapping, *paths: tuple[str, str]) -> Mapping:
    """The mapping with these pairs added."""
    for old, new in paths:
        mapping.link(at(mapping.before, old), at(mapping.after, new))
    return mapping


def linked(mapping: Mapping, *paths: tuple[str, str]) -> set[tuple[int, int]]:
    """The pairs of these paths, as ``Mapping.pairs`` gives them."""
    return {(at(mapping.before, old), at(mapping.after, new)) for old, new in paths}
