"""Finds cells with equal values in two workbooks whose formulas are written differently.

Tested, not proven: the values must be equal in the workbooks and in copies with other numbers and texts: near ones,
any ones, fractions, tiny ones (which show a small term), and the constants of the formulas (which show a case made
for one of them). Formulas that differ only where no copy does (a blank cell, a zero) count as equal.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from zlib import crc32

from upturn.environments.office.formulas.calculation import Key, value_of
from upturn.environments.office.formulas.comparison import is_same
from upturn.environments.office.state import Book, Sheet, Value, format_number, is_formula, parse_value, position_of

COPIES = 8
"""Number of copies with other values, in addition to the workbooks themselves."""
_FRACTIONS, _TINY = 6, 7
"""The copies whose numbers are fractions, and tiny."""
_TOLERANCE, _TINY_TOLERANCE = 1e-9, 1e-15
_MAX_CONSTANTS = 8
"""Constants of formulas that become inputs, one at a time and mixed."""
_MIXTURES = 12
"""Copies with the constants mixed: two cells have the two that a case needs in one of them with probability .97."""
_SCRAMBLER = 2_654_435_761
"""Knuth's multiplier: CRC is linear, so the last bits of two cells' numbers would always differ in the same way."""
_CONSTANT = re.compile(r'"([^"]+)"|(?<![\w$.:])(\d+(?:\.\d+)?)(?![\w.:(])')
_SPREAD = 2_000
_Column: TypeAlias = tuple[str, int]
"""A sheet's name and a column's number."""


def equal_cells(wanted: Book, actual: Book, cells: Sequence[Key]) -> frozenset[Key]:
    """The cells among these with equal values in both books, also when the inputs of the formulas change."""
    texts, constants = _texts(wanted), _constants(actual, cells)
    same = frozenset(cells)
    for copy in range(1 + COPIES):
        left, right = (_changed(book, copy, texts) if copy else book for book in (wanted, actual))
        least = _TINY_TOLERANCE if copy == _TINY else _TOLERANCE
        same = _still_equal(same, left, right, least)
    mixtures = [constants] * _MIXTURES if len(constants) > 1 else []
    for salt, chosen in enumerate([*((near,) for constant in constants for near in _near(constant)), *mixtures]):
        left, right = (_with_constants(book, chosen, salt) for book in (wanted, actual))
        same = _still_equal(same, left, right, _TOLERANCE)
    return same


def _still_equal(cells: frozenset[Key], left: Book, right: Book, least: float) -> frozenset[Key]:
    return frozenset(key for key in cells if _is_equal(_value(left, key), _value(right, key), least))


def _constants(book: Book, cells: Sequence[Key]) -> tuple[str, ...]:
    """The numbers and texts in these formulas, without 0, against which formulas guard divisions."""
    formulas = (book.sheets[sheet].cells.get(address, "") for sheet, address in cells if sheet in book.sheets)
    matches = (match for formula in formulas for match in _CONSTANT.finditer(formula))
    constants = dict.fromkeys(match[1] or match[2] for match in matches)
    return tuple(constant for constant in constants if parse_value(constant) != 0)[:_MAX_CONSTANTS]


def _near(constant: str) -> tuple[str, ...]:
    """The constant, and the whole numbers on both sides of a number, which lie on both sides of a limit."""
    value = parse_value(constant)
    if not isinstance(value, float):
        return (constant,)
    return constant, *(format_number(near) for near in (math.floor(value) + 1.0, math.floor(value) - 1.0) if near)


def _with_constants(book: Book, constants: Sequence[str], salt: int) -> Book:
    """The book with one of these constants in every plain cell of the same type, below the headers."""
    sheets: dict[str, Sheet] = {}
    for name, sheet in book.sheets.items():
        cells = dict(sheet.cells)
        for address, text in sheet.cells.items():
            kind = type(parse_value(text))
            options = [constant for constant in constants if type(parse_value(constant)) is kind]
            if options and not is_formula(text) and position_of(address).row > 1:
                number = crc32(f"{salt}/{name}/{address}".encode()) * _SCRAMBLER >> 16
                cells[address] = options[number % len(options)]
        sheets[name] = replace(sheet, cells=cells)
    return Book(sheets)


def _value(book: Book, key: Key) -> Value:
    return value_of(book, *key) if key[0] in book.sheets else None


def _is_equal(left: Value, right: Value, least: float) -> bool:
    """Equal up to rounding: sums in another order differ in their last digits. ``least``: tolerance near 0."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=least)
    return is_same(left, right)


def _texts(book: Book) -> Mapping[_Column, list[str]]:
    """The distinct plain texts of each column, sorted."""
    by_column: defaultdict[_Column, set[str]] = defaultdict(set)
    for name, sheet in book.sheets.items():
        for address, text in sheet.cells.items():
            if not is_formula(text) and isinstance(parse_value(text), str):
                by_column[name, position_of(address).column].add(text)
    return {column: sorted(texts) for column, texts in by_column.items()}


def _changed(book: Book, copy: int, texts: Mapping[_Column, list[str]]) -> Book:
    """The book with other numbers, and in every second copy with other texts of the same column. A cell's new value
    depends only on the cell and the copy, so that equal books stay equal."""
    sheets: dict[str, Sheet] = {}
    for name, sheet in book.sheets.items():
        cells = dict(sheet.cells)
        for address, text in sheet.cells.items():
            value = None if is_formula(text) else parse_value(text)
            number = crc32(f"{copy}/{name}/{address}".encode())
            if isinstance(value, float):
                cells[address] = format_number(_number(value, copy, number))
            elif isinstance(value, str) and copy % 2 == 0:
                options = texts.get((name, position_of(address).column), [text])
                cells[address] = options[number % len(options)]
        sheets[name] = replace(sheet, cells=cells)
    return Book(sheets)


def _number(value: float, copy: int, number: int) -> float:
    """A number near the value half of the time, otherwise any; a fraction or a tiny one in two of the copies."""
    if copy in (_FRACTIONS, _TINY):
        return (number % 99_991 + 1) / (800 if copy == _FRACTIONS else 2**40)
    if number % 2:
        return value + number // 2 % 7 - 3
    return number // 2 % _SPREAD - _SPREAD / 4
