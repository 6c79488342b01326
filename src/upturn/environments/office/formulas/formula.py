"""The grammar of formulas: text to a tree and back, in one form. ``calculation`` evaluates trees.

Operators bind as in Excel, tightest first: per cent, sign (so ``-2^2`` is 4), ``^``, ``*`` ``/``, ``+`` ``-``,
``&``, comparisons; all are left-associative. References may name another sheet (``'Q3 plan'!B4``), be fixed
(``$B$4``) and be ranges or whole columns (``B2:B9``, ``B:D``). Not covered: names, tables, arrays in braces,
unions, intersections, and volatile functions (TODAY, NOW, RAND), since a task must not change.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from upturn.environments.office.formulas.function import FUNCTIONS
from upturn.environments.office.state import (
    ERRORS,
    MAX_ROWS,
    Area,
    CellError,
    Position,
    bounding_area,
    column_letters,
    column_number,
    display_text,
)

MAX_LENGTH = 2_000
"""Characters of a formula; Excel's limit is 8,192."""
MAX_DEPTH = 64
"""Depth of a tree: Excel's limit for nested functions, far below Python's recursion limit."""


class FormulaError(ValueError):
    """A text that is no valid formula."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, TRUE, FALSE or an error value."""

    value: float | str | bool | CellError


@dataclass(frozen=True, slots=True)
class Corner:
    """A cell in a reference."""

    position: Position
    is_column_fixed: bool = False
    is_row_fixed: bool = False

    def shifted(self, *, columns: int, rows: int) -> "Corner | None":
        """The corner in a copy of the formula so many columns to the right and rows below; None = off the sheet."""
        position = Position(
            self.position.column if self.is_column_fixed else self.position.column + columns,
            self.position.row if self.is_row_fixed else self.position.row + rows,
        )
        return replace(self, position=position) if position.is_on_sheet else None


@dataclass(frozen=True, slots=True)
class Reference:
    """A cell, a range or whole columns."""

    first: Corner
    last: Corner | None = None
    """The opposite corner; None = a single cell."""
    sheet: str | None = None
    """None = the formula's sheet."""
    has_all_rows: bool = False
    """Whether it is written ``B:D``."""
    area: Area = field(init=False, compare=False, repr=False)
    address: str | None = field(init=False, compare=False, repr=False)
    """The address of a single cell; None = there are several."""

    def __post_init__(self) -> None:
        area = bounding_area((self.first.position, (self.last or self.first).position))
        object.__setattr__(self, "area", area)
        object.__setattr__(self, "address", area.first.address if area.size == 1 else None)


@dataclass(frozen=True, slots=True)
class Unary:
    """A prefix ``-`` or a suffix ``%``."""

    sign: str
    inner: "Node"


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary operation."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Call:
    """A function call."""

    name: str
    arguments: tuple["Node", ...]


Node: TypeAlias = Literal | Reference | Unary | Binary | Call
_BINDING: Mapping[str, int] = {
    **dict.fromkeys(("=", "<>", "<", ">", "<=", ">="), 1),
    "&": 2,
    **dict.fromkeys("+-", 3),
    **dict.fromkeys("*/", 4),
    "^": 5,
}
_WHOLE_BELOW = 1e15
_SIGN_BINDING, _PERCENT_BINDING = 6, 7
_NAMES = "A-Za-z_"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,3}})?)
    | (?P<text>"(?:[^"]|"")*")
    | (?P<sheet>(?:'(?:[^']|'')+'|[^\W\d][\w.]*)!)
    | (?P<error>\#(?:DIV/0!|NAME\?|NUM!|REF!|VALUE!|N/A))
    | (?P<columns>\$?[A-Za-z]{{1,3}}:\$?[A-Za-z]{{1,3}})(?![{_NAMES}0-9.(])
    | (?P<cell>\$?[A-Za-z]{{1,3}}\$?[1-9][0-9]{{0,6}})(?![{_NAMES}0-9.(])
    | (?P<name>[{_NAMES}][{_NAMES}0-9.]*)
    | (?P<sign><=|>=|<>|[-+*/^&=<>%(),:])
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_CELL = re.compile(r"(\$?)([A-Za-z]{1,3})(\$?)([0-9]*)")
_PLAIN_NAME = re.compile(r"[^\W\d][\w.]*")
_CELL_LIKE = re.compile(r"[A-Za-z]{1,3}[0-9]+|[rRcC][0-9]*")


class _Token(NamedTuple):
    kind: str
    """The name of its group in ``_TOKEN``, or ``end``."""
    text: str


class Formula(NamedTuple):
    """A parsed formula."""

    tree: Node
    references: tuple[Reference, ...]
    """All its references, without duplicates."""


@lru_cache(maxsize=4_096)
def parse(text: str) -> Formula:
    """Parses a formula, which starts with ``=``; raises FormulaError for invalid ones."""
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"a formula has at most {MAX_LENGTH} characters, got {len(text)}")
    tree = _Parser(text[1:]).tree()
    return Formula(tree, tuple(dict.fromkeys(references_in(tree))))


class _Parser:
    """Precedence climbing over one formula; single use."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    def tree(self) -> Node:
        node = self._expression(0)
        if self._peek().kind != "end":
            raise FormulaError(f"{self._peek().text!r} is not expected there")
        if _depth(node) > MAX_DEPTH:
            raise FormulaError(f"more than {MAX_DEPTH} levels deep; use SUM over a range, or several cells")
        return node

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _expect(self, sign: str) -> None:
        token = self._take()
        if token.text != sign or token.kind != "sign":
            raise FormulaError(f"{sign!r} is missing before {token.text!r}")

    def _expression(self, weakest: int) -> Node:
        """An expression whose operators bind at least as strongly as ``weakest``."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FormulaError(f"more than {MAX_DEPTH} levels deep; use several cells")
        node = self._operand()
        while True:
            token = self._peek()
            if token.kind != "sign":
                break
            if token.text == "%":
                self._take()
                node = Unary("%", node)
                continue
            binding = _BINDING.get(token.text, -1)
            if binding < weakest or binding < 0:
                break
            self._take()
            node = Binary(token.text, node, self._expression(binding + 1))
        self._depth -= 1
        return node

    def _operand(self) -> Node:
        token = self._take()
        match token.kind:
            case "number":
                return _number(token.text)
            case "text":
                return Literal(token.text[1:-1].replace('""', '"'))
            case "error":
                return Literal(ERRORS[token.text.upper()])
            case "sheet" | "cell" | "columns":
                return self._reference(token)
            case "name":
                return self._named(token.text.upper())
        match token.text:
            case "-":
                return Unary("-", self._expression(_SIGN_BINDING))
            case "+":
                return self._expression(_SIGN_BINDING)
            case "(":
                node = self._expression(0)
                self._expect(")")
                return node
        raise FormulaError(f"{token.text!r} is not expected there")

    def _named(self, name: str) -> Node:
        if self._peek().text != "(":
            if name in ("TRUE", "FALSE"):
                return Literal(name == "TRUE")
            raise FormulaError(f"unknown name {name[:40]!r}; texts stand in quotation marks")
        function = FUNCTIONS.get(name)
        if function is None:
            raise FormulaError(f"unknown function {name[:40]!r}; known: {', '.join(FUNCTIONS)}")
        self._take()
        arguments = []
        if self._peek().text == ")":
            self._take()
        else:
            arguments.append(self._expression(0))
            while self._peek().text == ",":
                self._take()
                arguments.append(self._expression(0))
            self._expect(")")
        fewest, most = function.fewest, function.most
        if not fewest <= len(arguments) <= most:
            wanted = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            raise FormulaError(f"{name} takes {wanted} arguments, got {len(arguments)}")
        return Call(name, tuple(arguments))

    def _reference(self, token: _Token) -> Reference:
        sheet = None
        if token.kind == "sheet":
            sheet = token.text[:-1]
            if sheet.startswith("'"):
                sheet = sheet[1:-1].replace("''", "'")
            token = self._take()
        if token.kind == "columns":
            first, _, last = token.text.partition(":")
            return _range(_corner(first, row=1), _corner(last, row=MAX_ROWS), sheet, has_all_rows=True)
        if token.kind != "cell":
            raise FormulaError(f"a cell is expected behind {sheet!r}, got {token.text!r}")
        corner = _corner(token.text)
        if self._peek().text != ":":
            return Reference(corner, sheet=sheet)
        self._take()
        end = self._take()
        if end.kind != "cell":
            raise FormulaError(f"a range ends with a cell, got {end.text!r}")
        return _range(corner, _corner(end.text), sheet)


def _tokens(text: str) -> Iterator[_Token]:
    at, length = 0, len(text.rstrip())
    while at < length:
        match = _TOKEN.match(text, at)
        if match is None:
            raise FormulaError(f"cannot read {text[at : at + 20].strip()!r}")
        assert match.lastgroup is not None  # all alternatives of the pattern are named
        yield _Token(match.lastgroup, match[match.lastgroup])
        at = match.end()
    yield _Token("end", "the end")


def _number(text: str) -> Literal:
    value = float(text)
    if math.isinf(value):
        raise FormulaError(f"{text!r} is too large a number")
    return Literal(value)


def _corner(text: str, *, row: int = 0) -> Corner:
    """``row``: for whole columns, which name none."""
    match = _CELL.fullmatch(text)
    assert match is not None  # the token's pattern is narrower
    position = Position(column_number(match[2]), row or int(match[4]))
    if not position.is_on_sheet:
        raise FormulaError(f"no sheet has {text!r}")
    return Corner(position, match[1] == "$", is_row_fixed=bool(row) or match[3] == "$")


def _range(one: Corner, second: Corner, sheet: str | None, *, has_all_rows: bool = False) -> Reference:
    """The reference with its upper left corner first."""
    left, right = sorted((one, second), key=lambda corner: corner.position.column)
    upper, lower = sorted((one, second), key=lambda corner: corner.position.row)
    first = Corner(Position(left.position.column, upper.position.row), left.is_column_fixed, upper.is_row_fixed)
    last = Corner(Position(right.position.column, lower.position.row), right.is_column_fixed, lower.is_row_fixed)
    return Reference(first, last, sheet, has_all_rows)


def _depth(node: Node) -> int:
    """The depth of the tree, without recursion: chains such as ``1+1+…`` are as deep as they are long."""
    deepest, level = 0, [node]
    while level:
        deepest += 1
        level = [child for node in level for child in children(node)]
    return deepest


def children(node: Node) -> tuple[Node, ...]:
    """The direct children of a tree's root."""
    match node:
        case Unary():
            return (node.inner,)
        case Binary():
            return (node.left, node.right)
        case Call():
            return node.arguments
        case _:
            return ()


def references_in(node: Node) -> Iterator[Reference]:
    """All references of a tree, with duplicates."""
    if isinstance(node, Reference):
        yield node
    for child in children(node):
        yield from references_in(child)


def map_references(node: Node, change: Callable[[Reference], Node]) -> Node:
    """The tree with every reference replaced."""
    match node:
        case Reference():
            return change(node)
        case Unary():
            return replace(node, inner=map_references(node.inner, change))
        case Binary():
            return replace(node, left=map_references(node.left, change), right=map_references(node.right, change))
        case Call():
            return replace(node, arguments=tuple(map_references(argument, change) for argument in node.arguments))
        case _:
            return node


def shift(node: Node, *, columns: int, rows: int) -> Node:
    """The tree in a copy so many columns to the right and rows below: relative references move, #REF! off the
    sheet."""

    def change(reference: Reference) -> Node:
        first = reference.first.shifted(columns=columns, rows=rows)
        last = reference.last and reference.last.shifted(columns=columns, rows=rows)
        if first is None or (reference.last is not None and last is None):
            return Literal(CellError.REFERENCE)
        if last is None:
            return replace(reference, first=first)
        return _range(first, last, reference.sheet, has_all_rows=reference.has_all_rows)

    return map_references(node, change)


def format_formula(node: Node) -> str:
    """The formula, with ``=``, in capitals and without needless brackets; parsing it gives an equal tree."""
    return f"={_format_node(node, 0)}"


def _format_node(node: Node, weakest: int) -> str:
    """The text, in brackets if it binds less tightly than ``weakest``."""
    match node:
        case Literal():
            return _literal(node.value)
        case Reference():
            return _format_reference(node)
        case Call():
            return f"{node.name}({','.join(_format_node(argument, 0) for argument in node.arguments)})"
        case Unary("-"):
            binding, text = _SIGN_BINDING, f"-{_format_node(node.inner, _SIGN_BINDING)}"
        case Unary():
            binding, text = _PERCENT_BINDING, f"{_format_node(node.inner, _PERCENT_BINDING)}%"
        case Binary():
            binding = _BINDING[node.operator]
            text = f"{_format_node(node.left, binding)}{node.operator}{_format_node(node.right, binding + 1)}"
    return text if binding >= weakest else f"({text})"


def _literal(value: float | str | bool | CellError) -> str:
    if isinstance(value, str):
        return '"{}"'.format(value.replace('"', '""'))
    if isinstance(value, float):
        return repr(int(value) if value.is_integer() and value < _WHOLE_BELOW else value)
    return display_text(value)


def _format_reference(reference: Reference) -> str:
    prefix = "" if reference.sheet is None else f"{quote_sheet(reference.sheet)}!"
    first, last = reference.first, reference.last
    if last is None:
        return prefix + _format_corner(first)
    if reference.has_all_rows:
        return f"{prefix}{_format_corner(first, has_row=False)}:{_format_corner(last, has_row=False)}"
    return f"{prefix}{_format_corner(first)}:{_format_corner(last)}"


def _format_corner(corner: Corner, *, has_row: bool = True) -> str:
    column = f"{'$' if corner.is_column_fixed else ''}{column_letters(corner.position.column)}"
    return f"{column}{'$' if corner.is_row_fixed else ''}{corner.position.row}" if has_row else column


def quote_sheet(sheet: str) -> str:
    """A sheet's name in a formula: in ``'`` unless it is a plain word."""
    if _PLAIN_NAME.fullmatch(sheet) and not _CELL_LIKE.fullmatch(sheet):
        return sheet
    return "'{}'".format(sheet.replace("'", "''"))
