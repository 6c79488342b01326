"""Mutation operators: each changes one place of a function as a person might have mistyped it.

A mutant is the source with one span replaced, so that everything else keeps its formatting. Operators are
registered in ``OPERATORS``. After Jia and Harman, "An Analysis and Survey of the Development of Mutation Testing",
2011; deletions of statements after Untch, 2009.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias


class Mutant(NamedTuple):
    """One replaced span of a source."""

    operator: str
    start: int
    stop: int
    replacement: str

    def applied(self, text: str) -> str:
        """The source with the bug."""
        return text[: self.start] + self.replacement + text[self.stop :]

    def line(self, text: str) -> int:
        """The number of its first line, from 1."""
        return text.count("\n", 0, self.start) + 1


class Span(NamedTuple):
    """A place in a source."""

    start: int
    stop: int


class Scope:
    """A function and its source, which is ASCII: the columns of the parser are bytes."""

    def __init__(self, text: str, function: ast.FunctionDef) -> None:
        self.text, self.function = text, function
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        self.statements = body
        self.nodes: list[ast.AST] = [node for statement in body for node in ast.walk(statement)]

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Where the node is."""
        stop_line, stop_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return Span(self._starts[node.lineno - 1] + node.col_offset, self._starts[stop_line - 1] + stop_column)

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The node's text."""
        start, stop = self.span(node)
        return self.text[start:stop]

    def between(self, first: ast.expr, second: ast.expr) -> Span:
        """What stands between two expressions."""
        return Span(self.span(first).stop, self.span(second).start)

    def token(self, first: ast.expr, second: ast.expr, token: str) -> Span | None:
        """The token between two expressions; None where brackets make it unclear."""
        start, stop = self.between(first, second)
        inside = self.text[start:stop]
        if inside.count(token) != 1:
            return None
        at = start + inside.index(token)
        return Span(at, at + len(token))

    def defaults(self) -> list[ast.expr]:
        """The default values of the function's parameters."""
        return [
            *self.function.args.defaults,
            *(node for node in self.function.args.kw_defaults if node is not None),
        ]


Operator: TypeAlias = Callable[[Scope], Iterator[tuple[Span, str]]]

_COMPARISONS: Mapping[type[ast.cmpop], Sequence[tuple[str, str]]] = {
    ast.Lt: (("<", "<="), ("<", ">")),
    ast.LtE: (("<=", "<"), ("<=", ">=")),
    ast.Gt: ((">", ">="), (">", "<")),
    ast.GtE: ((">=", ">"), (">=", "<=")),
    ast.Eq: (("==", "!="),),
    ast.NotEq: (("!=", "=="),),
    ast.In: ((" in ", " not in "),),
    ast.NotIn: ((" not in ", " in "),),
    ast.Is: ((" is ", " is not "),),
    ast.IsNot: ((" is not ", " is "),),
}
_ARITHMETIC: Mapping[type[ast.operator], Sequence[tuple[str, str]]] = {
    ast.Add: (("+", "-"),),
    ast.Sub: (("-", "+"),),
    ast.Mult: (("*", "+"),),
    ast.FloorDiv: (("//", "%"),),
    ast.Mod: (("%", "//"),),
    ast.Div: (("/", "//"),),
}
_METHODS = {
    "lower": "upper",
    "upper": "lower",
    "lstrip": "rstrip",
    "rjust": "ljust",
    "removeprefix": "removesuffix",
    "pop": None,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "max", "sorted": "list"}


def compare(scope: Scope) -> Iterator[tuple[Span, str]]:
    """Another comparison."""
    for node in scope.nodes:
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        for left, operation, right in zip(sides, node.ops, node.comparators, strict=False):
            for token, other in _COMPARISONS[type(operation)]:
                span = scope.token(left, right, token)
                if span is not None:
                    yield span, other


def arithmetic(scope: Scope) -> Iterator[tuple[Span, str]]:
    """Another arithmetic operation."""
    for node in scope.nodes:
        if isinstance(node, ast.BinOp):
            for token, other in _ARITHMETIC.get(type(node.op), ()):
                span = scope.token(node.left, node.right, token)
                if span is not None:
                    yield span, other
        elif isinstance(node, ast.AugAssign):
            for token, other in _ARITHMETIC.get(type(node.op), ()):
                span = scope.token(node.target, node.value, token + "=")
                if span is not None:
                    yield span, other + "="


def boolean(scope: Scope) -> Iterator[tuple[Span, str]]:
    """``or`` in place of ``and``, and the other way round."""
    for node in scope.nodes:
        if isinstance(node, ast.BoolOp):
            token, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                span = scope.token(left, right, token)
                if span is not None:
                    yield span, other


def negation(scope: Scope) -> Iterator[tuple[Span, str]]:
    """A condition without its ``not``, or with one."""
    for node in scope.nodes:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield scope.span(node), scope.of(node.operand)
        elif isinstance(node, ast.If | ast.IfExp) and isinstance(node.test, ast.Name | ast.Call):
            yield scope.span(node.test), f"not {scope.of(node.test)}"


def off_by_one(scope: Scope) -> Iterator[tuple[Span, str]]:
    """A number that is one too large or too small."""
    for node in (*scope.nodes, *scope.defaults()):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield scope.span(node), str(node.value + 1)
            if node.value > 0:
                yield scope.span(node), str(node.value - 1)


def bound(scope: Scope) -> Iterator[tuple[Span, str]]:
    """A range or a slice that ends one too early or too late."""
    for node in scope.nodes:
        ends: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            ends = node.args[:2]
        elif isinstance(node, ast.Slice):
            ends = [end for end in (node.lower, node.upper) if end is not None]
        for end in ends:
            if isinstance(end, ast.Name | ast.Call | ast.BinOp | ast.Attribute):
                yield scope.span(end), f"{scope.of(end)} + 1"
                yield scope.span(end), f"{scope.of(end)} - 1"


def variable(scope: Scope) -> Iterator[tuple[Span, str]]:
    """Another variable of the function."""
    arguments = [argument.arg for argument in scope.function.args.args]
    stored = [node.id for node in scope.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    known = list(dict.fromkeys((*arguments, *stored)))
    for node in scope.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in known:
            for other in known:
                if other != node.id:
                    yield scope.span(node), other


def swapped(scope: Scope) -> Iterator[tuple[Span, str]]:
    """Two arguments, operands or items of a pair the wrong way round."""
    for node in scope.nodes:
        pair: Sequence[ast.expr] = ()
        if isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords:
            pair = node.args
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.ctx, ast.Load):
            pair = node.elts
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.FloorDiv | ast.Mod):
            pair = (node.left, node.right)
        if len(pair) == 2 and not any(isinstance(part, ast.Starred) for part in pair):
            first, second = pair
            middle = slice(*scope.between(first, second))
            span = Span(scope.span(first).start, scope.span(second).stop)
            yield span, scope.of(second) + scope.text[middle] + scope.of(first)


def called(scope: Scope) -> Iterator[tuple[Span, str]]:
    """Another function or method with the same arguments."""
    for node in scope.nodes:
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and len(node.args) == 1:
            yield scope.span(node.func), _FUNCTIONS[node.func.id]
        elif isinstance(node.func, ast.Attribute) and (other := _METHODS.get(node.func.attr)):
            stop = scope.span(node.func).stop
            yield Span(stop - len(node.func.attr), stop), other


def branches(scope: Scope) -> Iterator[tuple[Span, str]]:
    """The two values of a conditional expression the wrong way round."""
    for node in scope.nodes:
        if isinstance(node, ast.IfExp):
            start, stop = scope.span(node)
            condition = scope.text[scope.span(node.body).stop : scope.span(node.orelse).start]
            yield Span(start, stop), scope.of(node.orelse) + condition + scope.of(node.body)


def missing(scope: Scope) -> Iterator[tuple[Span, str]]:
    """A statement that is not there: ``pass`` stands in its place."""
    for node in scope.nodes:
        if isinstance(node, ast.AugAssign | ast.Continue | ast.Break | ast.Delete) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ):
            yield scope.span(node), "pass"


OPERATORS: Mapping[str, Operator] = {
    operator.__name__: operator
    for operator in (
        *(compare, arithmetic, boolean, negation, off_by_one, bound, variable, swapped, called, branches),
        missing,
    )
}


def mutants(text: str, function: ast.FunctionDef) -> list[Mutant]:
    """All mutants of a function that are valid Python, different from each other and from the source."""
    scope = Scope(text, function)
    result: list[Mutant] = []
    seen = {text}
    for name, operator in OPERATORS.items():
        for span, replacement in operator(scope):
            mutant = Mutant(name, *span, replacement)
            mutated = mutant.applied(text)
            if mutated in seen:
                continue
            seen.add(mutated)
            try:
                ast.parse(mutated)
            except SyntaxError:
                continue
            result.append(mutant)
    return result
