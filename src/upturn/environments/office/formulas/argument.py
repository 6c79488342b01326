"""Arguments of formula functions: ranges, single values and their conversions, as in Excel."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from upturn.environments.office.state import Area, CellError, Position, Value, display_text, parse_value

MANY = 255
"""Limit on the arguments of functions that take any number of them."""
MAX_TEXT = 32_767
"""Limit on the characters of a text that a formula returns."""


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


Argument: TypeAlias = Value | Range
"""A value or a range, which SUM reads differently."""


class FunctionError(Exception):
    """Ends a function with an error value."""

    def __init__(self, error: CellError) -> None:
        self.error = error
        super().__init__(error.value)


@dataclass(frozen=True, slots=True)
class Function:
    """One function."""

    run: Callable[[Sequence[Argument]], Argument]
    """Raises FunctionError for an error value."""
    fewest: int
    """Least number of arguments."""
    most: int


def single_value(argument: Argument) -> Value:
    """The value, errors too; raises FunctionError for more than one cell."""
    if not isinstance(argument, Range):
        return argument
    if argument.area.size > 1:
        raise FunctionError(CellError.VALUE)
    return argument.at(0, 0)


def scalar(argument: Argument) -> Value:
    """The value; raises FunctionError for errors and for more than one cell."""
    value = single_value(argument)
    if isinstance(value, CellError):
        raise FunctionError(value)
    return value


def number(argument: Argument) -> float:
    """The argument as arithmetic reads it: an empty cell is 0, TRUE is 1, a text is the number that it spells."""
    if type(argument) is float:
        return argument
    value = scalar(argument)
    if isinstance(value, str):
        value = parse_value(value)
        if not isinstance(value, float):
            raise FunctionError(CellError.VALUE)
    return float(value) if isinstance(value, float | bool) else 0.0


def integer(argument: Argument) -> int:
    """The argument as a count: decimals are cut off."""
    return int(number(argument))


def text(argument: Argument) -> str:
    """The argument as text."""
    return display_text(scalar(argument))


def boolean(argument: Argument) -> bool:
    """The argument as a condition: 0 and empty cells are FALSE, other numbers TRUE; texts must spell a boolean."""
    value = scalar(argument)
    if isinstance(value, str):
        value = parse_value(value)
        if not isinstance(value, bool):
            raise FunctionError(CellError.VALUE)
    return bool(value)


def check_length(text: str) -> str:
    """The text; raises FunctionError if it is too long for a cell."""
    if len(text) > MAX_TEXT:
        raise FunctionError(CellError.VALUE)
    return text


def numbers(arguments: Sequence[Argument]) -> Iterator[float]:
    """All numbers: cells of ranges that hold numbers, and single values that convert to numbers."""
    for argument in arguments:
        if isinstance(argument, Range):
            for value in argument.values():
                if isinstance(value, CellError):
                    raise FunctionError(value)
                if isinstance(value, float):
                    yield value
        else:
            yield number(argument)


def booleans(arguments: Sequence[Argument]) -> Iterator[bool]:
    """All booleans: cells of ranges that hold numbers or booleans; raises FunctionError without any."""
    is_empty = True
    for argument in arguments:
        values = argument.values() if isinstance(argument, Range) else (boolean(argument),)
        for value in values:
            if isinstance(value, CellError):
                raise FunctionError(value)
            if isinstance(value, float | bool):
                is_empty = False
                yield bool(value)
    if is_empty:
        raise FunctionError(CellError.VALUE)


def range_of(argument: Argument) -> Range:
    """The range; raises FunctionError for a single value."""
    if isinstance(argument, Range):
        return argument
    raise FunctionError(argument if isinstance(argument, CellError) else CellError.VALUE)
