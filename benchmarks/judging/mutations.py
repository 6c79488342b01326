"""Changes of one statement in real Python: what a small fix does, in ten kinds."""

import ast
from collections.abc import Callable
from random import Random
from typing import NamedTuple

INSERTED = ("log(x)", "if x is None:\n    return 0", "y = compute(1, 2)", "return value", "assert limit > 0, limit")
_TRIES = 50
"""Statements that are looked at until one suits the kind."""


class Mutant(NamedTuple):
    """A program with one statement changed."""

    kind: str
    text: str


def _changed_constant(statement: ast.stmt, chance: Random) -> bool:
    constants = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | str) and not isinstance(node.value, bool)
    ]
    if not constants:
        return False
    node = chance.choice(constants)
    match node.value:
        case int():
            node.value += 1
        case str():
            node.value += "x"
    return True


def _changed_operator(statement: ast.stmt, chance: Random) -> bool:
    nodes = [node for node in ast.walk(statement) if isinstance(node, ast.Compare | ast.BinOp)]
    if not nodes:
        return False
    node = chance.choice(nodes)
    if isinstance(node, ast.Compare):
        node.ops[0] = ast.LtE() if isinstance(node.ops[0], ast.Gt) else ast.Gt()
    else:
        node.op = ast.Mult() if isinstance(node.op, ast.Sub) else ast.Sub()
    return True


def _changed_name(statement: ast.stmt, chance: Random) -> bool:
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    if not names:
        return False
    chance.choice(names).id += "_other"
    return True


def _swapped_arguments(statement: ast.stmt, chance: Random) -> bool:
    calls = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
        and len(node.args) > 1
        and not any(isinstance(value, ast.Starred) for value in node.args)
        and ast.dump(node.args[0]) != ast.dump(node.args[1])
    ]
    if not calls:
        return False
    arguments = chance.choice(calls).args
    arguments[0], arguments[1] = arguments[1], arguments[0]
    return True


_INSIDE: dict[str, Callable[[ast.stmt, Random], bool]] = {
    "constant": _changed_constant,
    "operator": _changed_operator,
    "name": _changed_name,
    "arguments": _swapped_arguments,
}
KINDS = (*_INSIDE, "condition", "delete", "insert", "raise", "return", "wrap")


def mutant(text: str, kind: str, chance: Random) -> Mutant | None:
    """The program with one statement changed; None where no statement suits the kind or ``ast`` cannot write it."""
    program = ast.parse(text)
    blocks = [
        block
        for node in ast.walk(program)
        for field in ("body", "orelse", "finalbody")
        if isinstance(block := getattr(node, field, None), list) and block and isinstance(block[0], ast.stmt)
    ]
    for _ in range(_TRIES):
        block = chance.choice(blocks)
        if _mutate(block, chance.randrange(len(block)), kind, chance):
            try:
                return Mutant(kind, ast.unparse(ast.fix_missing_locations(program)))
            except ValueError:
                return None
    return None


def _mutate(block: list[ast.stmt], place: int, kind: str, chance: Random) -> bool:
    statement = block[place]
    is_simple = not hasattr(statement, "body") and not hasattr(statement, "cases")
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return False  # a docstring
    if kind in _INSIDE:
        return is_simple and _INSIDE[kind](statement, chance)
    if kind == "condition":
        if not isinstance(statement, ast.If):
            return False
        statement.test = ast.UnaryOp(ast.Not(), statement.test)
        return True
    if kind == "insert":
        block.insert(place, ast.parse(chance.choice(INSERTED)).body[0])
        return True
    if kind == "delete":
        if len(block) > 1:
            del block[place]
            return True
        return False
    if not is_simple or isinstance(statement, ast.Return | ast.Raise):
        return False
    if kind == "wrap":
        block[place] = ast.If(ast.parse("x > 0", mode="eval").body, [statement], [])
    else:
        block[place] = ast.parse("return None" if kind == "return" else "raise ValueError(1)").body[0]
    return True
