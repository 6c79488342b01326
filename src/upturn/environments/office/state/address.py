"""Positions of cells: addresses such as ``B3`` and areas such as ``A1:B4``, within Excel's limits."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from upturn.environments.office.state.operation_error import OperationError

MAX_COLUMNS = 16_384
MAX_ROWS = 1_048_576
_ADDRESS = re.compile(r"\$?([A-Za-z]{1,3})\$?([1-9][0-9]{0,6})")


class Position(NamedTuple):
    """The column and row of a cell, from 1."""

    column: int
    row: int

    @property
    def address(self) -> str:
        """``B3``"""
        return f"{column_letters(self.column)}{self.row}"

    @property
    def is_on_sheet(self) -> bool:
        """Whether it is within a sheet's limits."""
        return 1 <= self.column <= MAX_COLUMNS and 1 <= self.row <= MAX_ROWS


class Area(NamedTuple):
    """A rectangle of cells: its upper left and its lower right one, both included."""

    first: Position
    last: Position

    @property
    def height(self) -> int:
        """Number of rows."""
        return self.last.row - self.first.row + 1

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.last.column - self.first.column + 1

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.height * self.width

    @property
    def rows(self) -> range:
        """Row numbers."""
        return range(self.first.row, self.last.row + 1)

    @property
    def columns(self) -> range:
        """Column numbers."""
        return range(self.first.column, self.last.column + 1)

    @property
    def text(self) -> str:
        """``A1:B4``; ``B3`` for one cell."""
        return self.first.address if self.first == self.last else f"{self.first.address}:{self.last.address}"

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, Position):
            return False
        return (
            self.first.column <= position.column <= self.last.column
            and self.first.row <= position.row <= self.last.row
        )

    def intersection(self, other: "Area") -> "Area | None":
        """The intersection; None if it is empty."""
        first = Position(max(self.first.column, other.first.column), max(self.first.row, other.first.row))
        last = Position(min(self.last.column, other.last.column), min(self.last.row, other.last.row))
        return Area(first, last) if first.column <= last.column and first.row <= last.row else None

    def below(self, rows: int) -> "Area | None":
        """The area without its first ``rows`` rows; None if that is empty."""
        return None if rows >= self.height else Area(Position(self.first.column, self.first.row + rows), self.last)


@lru_cache(maxsize=1_024)
def column_number(letters: str) -> int:
    """A → 1, Z → 26, AA → 27."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


@lru_cache(maxsize=1_024)
def column_letters(number: int) -> str:
    """1 → A, 27 → AA."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


@lru_cache(maxsize=65_536)
def position_of(address: str) -> Position:
    """The cell of an address in any case, with or without ``$``; raises OperationError (``bad_value``)."""
    match = _ADDRESS.fullmatch(address)
    position = Position(column_number(match[1]), int(match[2])) if match is not None else Position(0, 0)
    if not position.is_on_sheet:
        raise OperationError("bad_value", f"cells are written B3 (to XFD{MAX_ROWS}), got {address[:60]!r}")
    return position


def area_of(text: str) -> Area:
    """The area of ``A1:B4``, ``B3`` or the columns ``B:D``; raises OperationError (``bad_value``)."""
    first, colon, last = text.partition(":")
    if colon and first.strip("$").isalpha() and last.strip("$").isalpha():
        first, last = f"{first}1", f"{last}{MAX_ROWS}"
    try:
        return bounding_area(map(position_of, (first.strip(), (last if colon else first).strip())))
    except OperationError:
        raise OperationError("bad_value", f"ranges are written A1:B4, B3 or B:D, got {text[:60]!r}") from None


def bounding_area(positions: Iterable[Position]) -> Area:
    """The smallest area that contains all these positions, of which there must be at least one."""
    columns, rows = zip(*positions, strict=True)
    return Area(Position(min(columns), min(rows)), Position(max(columns), max(rows)))
