"""Values of formulas: computed on demand and cached with the book, which never changes.

Cells are computed in the order of their dependencies, without recursion, so chains may have any length. Cells that
depend on themselves are ``#REF!``; ``find_cycle`` finds them, so that agents cannot write any. References to
missing sheets are ``#REF!`` too; invalid formulas are ``#NAME?``.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from upturn.environments.office.formulas.argument import (
    Argument,
    FunctionError,
    Range,
    check_length,
    number,
    scalar,
    single_value,
    text,
)
from upturn.environments.office.formulas.comparison import compare
from upturn.environments.office.formulas.formula import (
    Binary,
    Call,
    FormulaError,
    Literal,
    Node,
    Reference,
    Unary,
    parse,
    references_in,
)
from upturn.environments.office.formulas.function import FUNCTIONS
from upturn.environments.office.state import (
    Area,
    Book,
    CellError,
    Position,
    Value,
    display_text,
    is_formula,
    parse_value,
)

Key: TypeAlias = tuple[str, str]
"""A sheet's name and an address."""
MAX_WORK = 50_000
"""Limit on ``work_of`` a workbook: about 0.1 s of one core for all its formulas."""
_NEGLIGIBLE = 2.0**-50
"""A sum or difference below this share of its terms is 0, as in Excel."""


def value_of(book: Book, sheet: str, address: str) -> Value:
    """The value of a cell; None for an empty one."""
    text = book.sheets[sheet].cells.get(address)
    if text is None:
        return None
    if not is_formula(text):
        return parse_value(text)
    key = (sheet, address)
    if key not in book.values:
        for visit in _visits(book, key, []):
            book.values[visit.key] = _compute(book, visit.key) if visit.cycle_start is None else CellError.REFERENCE
    return book.values[key]


def displayed_text(book: Book, sheet: str, address: str) -> str:
    """The displayed text of a cell; empty for an empty one."""
    return display_text(value_of(book, sheet, address))


def find_cycle(book: Book, starts: Iterator[Key]) -> tuple[Key, ...]:
    """Cells that depend on each other in a cycle, among the dependencies of these cells that are not computed yet.

    Empty = there is no cycle; the cells are then computed.
    """
    for start in starts:
        if start not in book.values and is_formula(book.sheets[start[0]].cells.get(start[1], "")):
            path: list[Key] = []
            for visit in _visits(book, start, path):
                if visit.cycle_start is not None:
                    return tuple(path[visit.cycle_start :])
                book.values[visit.key] = _compute(book, visit.key)
    return ()


def work_of(book: Book) -> int:
    """Upper bound of the work: over all formulas, their characters and the filled cells that they name."""
    filled = {name: len(sheet.cells) for name, sheet in book.sheets.items()}
    work = 0
    for name, sheet in book.sheets.items():
        for address in sheet.used.formulas:
            text = sheet.cells[address]
            work += len(text)
            for other, size in _sizes(text):
                work += min(size, filled.get(name if other is None else other, 0))
    return work


class _Visit(NamedTuple):
    """A formula whose dependencies were all visited before."""

    key: Key
    cycle_start: int | None
    """Index on the path of the first cell that it depends on in turn; None = it is in no cycle. At the first visit
    in a cycle, the path from this index is the cycle."""


def _visits(book: Book, start: Key, path: list[Key]) -> Iterator[_Visit]:
    """Yields the dependencies of ``start`` without a value, each after its own dependencies.

    The caller must set each value before taking the next visit. ``path``: filled with the formulas from ``start``
    to the visited one, each depending on the next.
    """
    done = book.values
    path.append(start)
    indices, dependencies = {start: 0}, [_dependencies(book, start)]
    reached = [1]  # by index on the path: the first index that is needed from there; beyond its own = none
    while path:
        needed = next((key for key in dependencies[-1] if key not in done), None)
        if needed is None:
            yield _Visit(path[-1], reached[-1] if reached[-1] < len(path) else None)
            dependencies.pop()
            del indices[path.pop()]
            first = reached.pop()
            if reached:
                reached[-1] = min(reached[-1], first)
        elif needed in indices:
            reached[-1] = min(reached[-1], indices[needed])
        else:
            indices[needed] = len(path)
            path.append(needed)
            dependencies.append(_dependencies(book, needed))
            reached.append(len(path))


def _dependencies(book: Book, key: Key) -> Iterator[Key]:
    """The formulas that a formula refers to."""
    name, address = key
    try:
        references = parse(book.sheets[name].cells[address]).references
    except FormulaError:
        return
    for reference in references:
        sheet_name = name if reference.sheet is None else reference.sheet
        sheet = book.sheets.get(sheet_name)
        if sheet is None:
            continue
        if reference.address is None:
            yield from ((sheet_name, address) for address in sheet.formulas_in(reference.area))
        elif reference.address in sheet.used.formulas:
            yield sheet_name, reference.address


class _SheetReader:
    """Reads one sheet of a book; the formulas that are read have been computed before."""

    __slots__ = ("_book", "_cells", "_name")

    def __init__(self, book: Book, name: str) -> None:
        self._book = book
        self._name = name
        self._cells = book.sheets[name].cells

    def value(self, address: str) -> Value:
        text = self._cells.get(address)
        if text is None:
            return None
        if is_formula(text):
            return self._book.values.get((self._name, address), CellError.REFERENCE)
        return parse_value(text)

    def value_at(self, position: Position) -> Value:
        return self.value(position.address)

    def values_in(self, area: Area) -> Iterator[tuple[Position, Value]]:
        for position, address in self._book.sheets[self._name].filled(area):
            yield position, self.value(address)

    def other_sheet(self, name: str) -> "_SheetReader | None":
        """Another sheet of the book; None = there is none."""
        return _SheetReader(self._book, name) if name in self._book.sheets else None


def _compute(book: Book, key: Key) -> Value:
    name, address = key
    program = _program(book.sheets[name].cells[address])
    if program is None:
        return CellError.NAME
    try:
        value = single_value(program(_SheetReader(book, name)))
    except FunctionError as failure:
        return failure.error
    return 0.0 if value is None else value


_Program: TypeAlias = Callable[[_SheetReader], Argument]
"""Computes a formula, or a part of one, in a sheet."""


@lru_cache(maxsize=4_096)
def _program(text: str) -> _Program | None:
    """None = the formula is invalid."""
    try:
        return _compile(parse(text).tree)
    except FormulaError:
        return None


@lru_cache(maxsize=4_096)
def _sizes(text: str) -> tuple[tuple[str | None, int], ...]:
    """The sheet and size of every area that a formula names, once per mention."""
    try:
        tree = parse(text).tree
    except FormulaError:
        return ()
    return tuple((reference.sheet, reference.area.size) for reference in references_in(tree))


def _compile(node: Node) -> _Program:
    match node:
        case Literal():
            value = node.value
            return lambda _: value
        case Reference():
            return _compile_reference(node)
        case Unary():
            inner, divisor = _compile_value(node.inner), 100.0 if node.sign == "%" else -1.0
            return _guard(lambda reader: number(inner(reader)) / divisor)
        case Binary():
            left, right = _compile_value(node.left), _compile_value(node.right)
            operator = _OPERATORS[node.operator]
            return _guard(lambda reader: operator(left(reader), right(reader)))
        case Call():
            arguments, run = [_compile(argument) for argument in node.arguments], FUNCTIONS[node.name].run
            return _guard(lambda reader: run([argument(reader) for argument in arguments]))


def _compile_reference(reference: Reference) -> _Program:
    area, sheet = reference.area, reference.sheet
    if sheet is None:
        return lambda reader: Range(reader, area)

    def run(reader: _SheetReader) -> Argument:
        other = reader.other_sheet(sheet)
        return CellError.REFERENCE if other is None else Range(other, area)

    return run


def _compile_value(node: Node) -> _Program:
    """A program for operators, which need single values."""
    if isinstance(node, Reference) and node.address is not None and node.sheet is None:
        address = node.address
        return lambda reader: reader.value(address)
    return _compile(node)


def _guard(program: _Program) -> _Program:
    """The program with failures turned into error values."""

    def run(reader: _SheetReader) -> Argument:
        try:
            value = program(reader)
        except FunctionError as failure:
            return failure.error
        except OverflowError:
            return CellError.NUMBER
        return CellError.NUMBER if isinstance(value, float) and not math.isfinite(value) else value

    return run


def _add(left: Argument, right: Argument, *, sign: float = 1.0) -> float:
    first, second = number(left), sign * number(right)
    result = first + second
    return 0.0 if abs(result) < _NEGLIGIBLE * max(abs(first), abs(second)) else result


def _divide(left: Argument, right: Argument) -> float:
    dividend, divisor = number(left), number(right)
    if divisor == 0:
        raise FunctionError(CellError.DIVISION)
    return dividend / divisor


def _power(left: Argument, right: Argument) -> float:
    base, exponent = number(left), number(right)
    if base == 0 and exponent <= 0:
        raise FunctionError(CellError.NUMBER if exponent == 0 else CellError.DIVISION)
    if base < 0 and not exponent.is_integer():
        raise FunctionError(CellError.NUMBER)
    return float(base**exponent)


def _comparison(test: Callable[[int], bool]) -> Callable[[Argument, Argument], bool]:
    return lambda left, right: test(compare(scalar(left), scalar(right)))


_OPERATORS: Mapping[str, Callable[[Argument, Argument], Argument]] = {
    "+": _add,
    "-": lambda left, right: _add(left, right, sign=-1.0),
    "*": lambda left, right: number(left) * number(right),
    "/": _divide,
    "^": _power,
    "&": lambda left, right: check_length(text(left) + text(right)),
    "=": _comparison(lambda order: order == 0),
    "<>": _comparison(lambda order: order != 0),
    "<": _comparison(lambda order: order < 0),
    ">": _comparison(lambda order: order > 0),
    "<=": _comparison(lambda order: order <= 0),
    ">=": _comparison(lambda order: order >= 0),
}
