"""Python as a tree of nodes, by the module ``ast``: formatting, comments and docstrings do not count.

Operators are labels of their expressions; lists of statements are nodes of their own; whether a name is read or
written does not count, nor does the form of a literal.
"""

import ast
from collections.abc import Callable
from typing import Any

from upturn.rewards.difference.node import Node

STATEMENTS = frozenset(
    {
        "AnnAssign", "Assert", "Assign", "AsyncFor", "AsyncFunctionDef", "AsyncWith", "AugAssign", "Break",
        "ClassDef", "Continue", "Delete", "Expr", "For", "FunctionDef", "Global", "If", "Import", "ImportFrom",
        "Match", "Nonlocal", "Pass", "Raise", "Return", "Try", "TryStar", "TypeAlias", "While", "With",
    }
)  # fmt: skip
"""Kinds that are statements."""

_IGNORED = frozenset({"ctx", "type_comment", "type_ignores", "kind", "simple"})
_WRAPPED = frozenset({"decorator_list", "returns", "format_spec", "default_value", "type_params", "keywords"})
"""Fields whose nodes would be taken for those of another field."""
_OPTIONAL = frozenset({"lower", "upper", "step"})
"""Fields of which any may be missing: the label says which are there."""


def python_tree(text: str) -> Node:
    """The tree of a module. Raises SyntaxError, ValueError, MemoryError or RecursionError as ``ast.parse`` does."""
    return _module(ast.parse(text))


def _module(module: ast.Module) -> Node:
    return Node("Module", "", _statements(module.body))


def _statements(body: list[ast.stmt], *, has_docstring: bool = True) -> tuple[Node, ...]:
    if has_docstring and body and _is_text(body[0]):
        body = body[1:]
    return tuple([_convert(statement) for statement in body])


def _is_text(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def _convert(node: Any) -> Node:
    special = _SPECIAL.get(node.__class__)
    if special is not None:
        return special(node)
    kind = node.__class__.__name__
    labels: list[str] = []
    children: list[Node] = []
    for name in node._fields:
        if name in _IGNORED:
            continue
        value = getattr(node, name, None)
        if isinstance(value, list):
            words, below = _convert_list(node, name, value)
            labels += words
            children += below
        elif isinstance(value, ast.AST):
            if not value._fields:
                labels.append(value.__class__.__name__)  # an operator
            elif name in _WRAPPED:
                children.append(Node(name, "", (_convert(value),)))
            else:
                children.append(_convert(value))
                if name in _OPTIONAL:
                    labels.append(name)
        elif value is not None:
            labels.append(str(value))
    return Node(kind, " ".join(labels), tuple(children), getattr(node, "lineno", 0))


def _convert_list(node: Any, name: str, values: list[Any]) -> tuple[list[str], list[Node]]:
    """Labels and children that a field adds to its node."""
    if not values:
        return [], []
    first = values[0]
    if name in ("body", "orelse", "finalbody") and isinstance(first, ast.stmt):
        has_docstring = name == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        return [], [Node(name, "", _statements(values, has_docstring=has_docstring))]
    if isinstance(first, str):
        return values, []
    if isinstance(first, ast.AST) and not first._fields:
        return [operator.__class__.__name__ for operator in values], []
    below = [_convert(value) for value in values]
    return [], [Node(name, "", tuple(below))] if name in _WRAPPED else below


def _name(node: ast.Name) -> Node:
    return Node("Name", node.id, (), node.lineno)


def _attribute(node: ast.Attribute) -> Node:
    return Node("Attribute", node.attr, (_convert(node.value),), node.lineno)


def _constant(node: ast.Constant) -> Node:
    return Node("Constant", repr(node.value), (), node.lineno)


def _call(node: ast.Call) -> Node:
    children = [_convert(node.func), *[_convert(value) for value in node.args]]
    children += [Node("keyword", word.arg or "**", (_convert(word.value),), word.lineno) for word in node.keywords]
    return Node("Call", "", tuple(children), node.lineno)


def _expression(node: ast.Expr) -> Node:
    return Node("Expr", "", (_convert(node.value),), node.lineno)


def _delete(node: ast.Delete) -> Node:
    """``del (a, b)`` is ``del a, b``: formatters write the one for the other."""
    targets = [
        part
        for target in node.targets
        for part in (target.elts if isinstance(target, ast.Tuple) and target.elts else [target])
    ]
    return Node("Delete", "", tuple([_convert(target) for target in targets]), node.lineno)


def _dict(node: ast.Dict) -> Node:
    items = [
        Node("unpacking", "", (_convert(value),))
        if key is None
        else Node("item", "", (_convert(key), _convert(value)), key.lineno)
        for key, value in zip(node.keys, node.values, strict=True)
    ]
    return Node("Dict", "", tuple(items), node.lineno)


def _arguments(node: ast.arguments) -> Node:
    positional = [*node.posonlyargs, *node.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(node.defaults)) + list(node.defaults)
    children = [
        _parameter("position_only" if place < len(node.posonlyargs) else "parameter", arg, default)
        for place, (arg, default) in enumerate(zip(positional, defaults, strict=True))
    ]
    if node.vararg is not None:
        children.append(_parameter("star", node.vararg, None))
    children += [
        _parameter("keyword_only", arg, default)
        for arg, default in zip(node.kwonlyargs, node.kw_defaults, strict=True)
    ]
    if node.kwarg is not None:
        children.append(_parameter("double_star", node.kwarg, None))
    return Node("arguments", "", tuple(children))


def _parameter(kind: str, arg: ast.arg, default: ast.expr | None) -> Node:
    children = [] if arg.annotation is None else [_convert(arg.annotation)]
    if default is not None:
        children.append(Node("default", "", (_convert(default),)))
    return Node(kind, arg.arg, tuple(children), arg.lineno)


_SPECIAL: dict[type[ast.AST], Callable[[Any], Node]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Constant: _constant,
    ast.Call: _call,
    ast.Expr: _expression,
    ast.Delete: _delete,
    ast.Dict: _dict,
    ast.arguments: _arguments,
}
