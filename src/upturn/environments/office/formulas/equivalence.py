"""Finds cells with equal values in two workbooks whose formulas are written differently.

Tested, not proven: the values must be equal in the workbooks and in copies with other numbers and texts. Formulas
that differ only where no copy does (a threshold that none crosses, an empty cell) count as equal.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from zlib import crc32

from upturn.environments.office.formulas.calculation import Key, value_of
from upturn.environments.office.formulas.comparison import is_same
from upturn.environments.office.state import Book, Sheet, Value, format_number, is_formula, parse_value, position_of

COPIES = 5
"""Number of copies with other values, in addition to the workbooks themselves."""
_SPREAD = 2_000
_Column: TypeAlias = tuple[str, int]
"""A sheet's name and a column's number."""


def equal_cells(wanted: Book, actual: Book, cells: Sequence[Key]) -> frozenset[Key]:
    """The cells among these with equal values in both books, also when the inputs of the formulas change."""
    texts = _texts(wanted)
    same = frozenset(cells)
    for copy in range(1 + COPIES):
        left, right = (_changed(book, copy, texts) if copy else book for book in (wanted, actual))
        same = frozenset(key for key in same if _is_equal(_value(left, key), _value(right, key)))
    return same


def _value(book: Book, key: Key) -> Value:
    return value_of(book, *key) if key[0] in book.sheets else None


def _is_equal(left: Value, right: Value) -> bool:
    """Equal up to rounding: sums in another order differ in their last digits."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
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
                cells[address] = format_number(_number(value, number))
            elif isinstance(value, str) and copy % 2 == 0:
                options = texts.get((name, position_of(address).column), [text])
                cells[address] = options[number % len(options)]
        sheets[name] = replace(sheet, cells=cells)
    return Book(sheets)


def _number(value: float, number: int) -> float:
    """A number near the value half of the time, otherwise any."""
    if number % 2:
        return value + number // 2 % 7 - 3
    return number // 2 % _SPREAD - _SPREAD / 4
