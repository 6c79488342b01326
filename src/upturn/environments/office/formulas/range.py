"""Ranges of cells, as functions read them."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from upturn.environments.office.state import Area, Position, Value


class Entry(NamedTuple):
    """A cell of a range that is not empty."""

    row: int
    """From 0, within the range."""
    column: int
    value: Value


class Reader(Protocol):
    """The values of one sheet."""

    def value_at(self, position: Position) -> Value:
        """The value; None for an empty cell."""

    def values_in(self, area: Area) -> Iterator[tuple[Position, Value]]:
        """All cells that are not empty, row by row."""


class Range:
    """A rectangle of one sheet; values are read on demand."""

    __slots__ = ("_reader", "area")

    def __init__(self, reader: Reader, area: Area) -> None:
        self._reader = reader
        self.area = area

    def at(self, row: int, column: int) -> Value:
        """The value at a row and column from 0, which may be outside, as Excel extends ranges of SUMIF."""
        first = self.area.first
        position = Position(first.column + column, first.row + row)
        return self._reader.value_at(position) if position.is_on_sheet else None

    def entries(self) -> Iterator[Entry]:
        """All cells that are not empty, row by row."""
        column, row = self.area.first
        for position, value in self._reader.values_in(self.area):
            yield Entry(position.row - row, position.column - column, value)

    def values(self) -> Iterator[Value]:
        """The values of all cells that are not empty, row by row."""
        return (value for _, value in self._reader.values_in(self.area))

    def part(self, rows: tuple[int, int], columns: tuple[int, int]) -> "Range":
        """The part from the first to the last row and column, from 0, both included."""
        first = self.area.first
        corners = (
            Position(first.column + column, first.row + row) for column, row in zip(columns, rows, strict=True)
        )
        return Range(self._reader, Area(*corners))
