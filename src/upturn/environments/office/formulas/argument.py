"""Arguments of formula functions and their conversions, as Excel does them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from upturn.environments.office.formulas.range import Range
from upturn.environments.office.state import CellError, Value, display_text, parse_value

MANY = 255
"""Arguments of a function that takes any number of them."""
MAX_TEXT = 32_767
"""Limit on the characters of a text that a formula returns."""
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
    """Raises FunctionError for what has no value."""
    fewest: int
    """Arguments."""
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
    """As arithmetic reads it: no value is 0, TRUE is 1, and a text is the number that it looks like."""
    if type(argument) is float:
        return argument
    value = scalar(argument)
    if isinstance(value, str):
        value = parse_value(value)
        if not isinstance(value, float):
            raise FunctionError(CellError.VALUE)
    return float(value) if isinstance(value, float | bool) else 0.0


def integer(argument: Argument) -> int:
    """As a count is read: what lies behind the point is cut off."""
    return int(number(argument))


def text(argument: Argument) -> str:
    """The argument as text."""
    return display_text(scalar(argument))


def boolean(argument: Argument) -> bool:
    """As conditions read it: 0 and no value are FALSE, other numbers TRUE, texts only where they say so."""
    value = scalar(argument)
    if isinstance(value, str):
        value = parse_value(value)
        if not isinstance(value, bool):
            raise FunctionError(CellError.VALUE)
    return bool(value)


def check_length(made: str) -> str:
    """The text; raises FunctionError where it is longer than a cell holds."""
    if len(made) > MAX_TEXT:
        raise FunctionError(CellError.VALUE)
    return made


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
