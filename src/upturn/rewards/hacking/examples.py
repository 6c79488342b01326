"""Literal inputs and expected outputs of tests: what a program must not repeat to pass them."""

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from upturn.records import record

_MAX_LITERAL = 2_000
"""Characters of a literal as text; longer ones are left out."""
_TESTING = (
    "pytest",
    "unittest",
    "mock",
    "range",
    "len",
    "print",
    "isinstance",
    "sorted",
    "list",
    "set",
    "dict",
    "str",
)


@record
class Examples:
    """Literals by their canonical text (``repr``)."""

    inputs: frozenset[str]
    """Arguments of calls and values of parametrised cases; also their ``str`` and ``repr`` as texts."""
    outputs: frozenset[str]
    """What calls are compared with, and the values of parametrised cases."""
    pairs: frozenset[tuple[str, str]]
    """An input, or the tuple of all inputs of a call, with the output of the same assertion or case."""

    def is_case(self, inputs: Iterable[str], output: str) -> bool:
        """Whether some case has all these inputs and this output."""
        return all((one, output) in self.pairs for one in inputs)


def literal(node: ast.AST) -> str | None:
    """The canonical text of a literal; None = it is none, or too long."""
    try:
        value = ast.literal_eval(node)
        text = repr(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return text if len(text) <= _MAX_LITERAL else None


def is_distinctive(text: str) -> bool:
    """Whether a literal is more than a common boundary: −2 to 2, an empty or one-letter text, a truth value."""
    try:
        return _is_distinctive(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return False


def _is_distinctive(value: Any) -> bool:
    match value:
        case None | bool():
            return False
        case int() | float() | complex():
            return abs(value) > 2
        case str() | bytes():
            return len(value) > 1
        case list() | tuple() | set() | frozenset():
            return len(value) > 2 or any(_is_distinctive(part) for part in value)
        case dict():
            return any(_is_distinctive(part) for pair in value.items() for part in pair)
    return False


def read_examples(tests: Iterable[ast.Module]) -> Examples:
    """The examples of test modules."""
    reader = _Reader()
    for tree in tests:
        reader.read(tree)
    inputs = set(reader.inputs)
    for text in reader.inputs:
        value = ast.literal_eval(text)
        inputs |= {repr(str(value)), repr(text)}
    return Examples(frozenset(inputs), frozenset(reader.outputs), frozenset(reader.pairs))


class _Reader:
    def __init__(self) -> None:
        self.inputs: set[str] = set()
        self.outputs: set[str] = set()
        self.pairs: set[tuple[str, str]] = set()

    def read(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                self._read_scope(node)
            elif isinstance(node, ast.List | ast.Tuple):
                self._read_cases(node.elts)
            elif isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if key is not None:
                        self._add_case([literal(key), literal(value)])

    def _read_scope(self, scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Module) -> None:
        known: dict[str, str] = {}
        for node in _inside(scope):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if (text := literal(value)) is not None:
                    known[name] = text
                case ast.Assert(test=test):
                    self._read_assertion(test, known)
                case ast.Call():
                    self._read_call(node, known)

    def _read_assertion(self, test: ast.expr, known: dict[str, str]) -> None:
        match test:
            case ast.Compare(left=left, comparators=[right]):
                self._compare(left, right, known)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._pair(_arguments(operand, known), "False")
            case _:
                self._pair(_arguments(test, known), "True")

    def _read_call(self, call: ast.Call, known: dict[str, str]) -> None:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name.startswith("assert") and len(call.args) > 1:
            self._compare(call.args[0], call.args[1], known)
        elif name in ("assertTrue", "assertFalse") and call.args:
            self._pair(_arguments(call.args[0], known), str(name == "assertTrue"))
        elif not name.startswith("assert") and name not in _TESTING:
            self.inputs.update(_own_arguments(call, known))

    def _compare(self, left: ast.expr, right: ast.expr, known: dict[str, str]) -> None:
        for one, other in ((left, right), (right, left)):
            output = _value(other, known)
            if output is not None and literal(one) is None:
                self._pair(_arguments(one, known), output)

    def _pair(self, inputs: list[str], output: str) -> None:
        self.outputs.add(output)
        self.inputs.update(inputs)
        self.pairs.update((one, output) for one in inputs)
        if len(inputs) > 1:
            self.pairs.add((f"({', '.join(inputs)})", output))

    def _read_cases(self, elements: list[ast.expr]) -> None:
        """Rows of a table: every value of a row may be an input, and every other its output."""
        for element in elements:
            values = element.elts if isinstance(element, ast.Tuple | ast.List) else []
            if isinstance(element, ast.Call) and getattr(element.func, "attr", "") == "param":
                values = element.args
            if len(values) > 1:
                self._add_case([literal(value) for value in values])

    def _add_case(self, values: list[str | None]) -> None:
        known = [value for value in values if value is not None]
        self.inputs.update(known)
        self.outputs.update(known)
        self.pairs.update((one, other) for one in known for other in known if one != other)
        if len(known) == len(values) > 2:
            self.pairs.add((f"({', '.join(known[:-1])})", known[-1]))


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope in order, without those of functions in it."""
    stack = list(reversed(list(ast.iter_child_nodes(scope))))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            stack += reversed(list(ast.iter_child_nodes(node)))


def _value(node: ast.expr, known: dict[str, str]) -> str | None:
    match node:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Call(args=[inner, *_], func=ast.Attribute(attr="approx")):
            return literal(inner)
    return literal(node)


def _own_arguments(call: ast.Call, known: dict[str, str]) -> list[str]:
    values = [_value(value, known) for value in (*call.args, *[word.value for word in call.keywords])]
    return [value for value in values if value is not None]


def _arguments(node: ast.AST, known: dict[str, str]) -> list[str]:
    """Literal arguments of all calls in an expression."""
    return [value for call in ast.walk(node) if isinstance(call, ast.Call) for value in _own_arguments(call, known)]
