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
    """The source of values: one sheet."""

    def value_at(self, position: Position) -> Value:
        """None for an empty cell."""
        ...

    def values_in(self, area: Area) -> Iterator[tuple[Position, Value]]:
        """Of all cells that are not empty, row by row."""
        ...


class Range:
    """A rectangle of one sheet; values are read when they are asked for."""

    __slots__ = ("_reader", "area")

    def __init__(self, reader: Reader, area: Area) -> None:
        self._reader = reader
        self.area = area

    def at(self, row: int, column: int) -> Value:
        """The value there, from 0; beyond the last row or column too, as Excel extends what is summed."""
        first = self.area.first
        position = Position(first.column + column, first.row + row)
        return self._reader.value_at(position) if position.is_on_sheet else None

    def entries(self) -> Iterator[Entry]:
        """All cells that are not empty, row by row."""
        column, row = self.area.first
        for position, value in self._reader.values_in(self.area):
            yield Entry(position.row - row, position.column - column, value)

    def values(self) -> Iterator[Value]:
        """Of all cells that are not empty, row by row."""
        return (value for _, value in self._reader.values_in(self.area))

    def part(self, rows: tuple[int, int], columns: tuple[int, int]) -> "Range":
        """From the first to the last row and column, from 0, both included."""
        first = self.area.first
        return Range(
            self._reader,
            Area(
                Position(first.column + columns[0], first.row + rows[0]),
                Position(first.column + columns[1], first.row + rows[1]),
            ),
        )
