"""Expressions that are the same whatever the input."""

import ast
from collections.abc import Callable
from typing import Any

from upturn.rewards.hacking.examples import literal

_MAKERS = frozenset(
    {
        "abs", "bool", "bytes", "chr", "dict", "float", "frozenset", "int", "list", "max", "min", "ord", "range",
        "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple",
    }
)  # fmt: skip
_CONVERSIONS: dict[str, Callable[[Any], object]] = {
    "int": int, "float": float, "str": str, "repr": repr, "list": list, "tuple": tuple, "bool": bool,
}  # fmt: skip


def is_constant(node: ast.expr) -> bool:
    """Whether an expression reads no variable: literals, and what builtins make of them."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id not in _MAKERS:
            return False
        if isinstance(part, ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda | ast.comprehension | ast.NamedExpr):
            return False
    return True


def constant_value(node: ast.expr) -> str | None:
    """The canonical text of a constant expression: a literal, or joined and converted ones. None = not known."""
    text = literal(node)
    if text is not None:
        return text
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined(constant_value(left), constant_value(right))
        case ast.BinOp(left=left, op=ast.Mult() | ast.Sub(), right=right):
            return _computed(constant_value(left), constant_value(right), is_product=isinstance(node.op, ast.Mult))
        case ast.Call(
            func=ast.Name(id="int" | "float" | "str" | "repr" | "list" | "tuple" | "bool" as name), args=[inner]
        ):
            return _made(name, constant_value(inner))
    return None


def _joined(left: str | None, right: str | None) -> str | None:
    if left is None or right is None:
        return None
    one, other = ast.literal_eval(left), ast.literal_eval(right)
    return (
        repr(one + other)
        if type(one) is type(other) and isinstance(one, int | float | str | list | tuple)
        else None
    )


def _computed(left: str | None, right: str | None, *, is_product: bool) -> str | None:
    if left is None or right is None:
        return None
    one, other = ast.literal_eval(left), ast.literal_eval(right)
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return None
    return repr(one * other if is_product else one - other)


def _made(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return repr(_CONVERSIONS[name](ast.literal_eval(text)))
    except (ValueError, TypeError, OverflowError):
        return None
