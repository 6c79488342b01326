"""Functions that search a range: VLOOKUP, XLOOKUP, INDEX and MATCH.

Where Excel uses binary search on sorted cells, all cells are searched here: the result is the same for sorted
cells, and the last match for others (which Excel leaves undefined).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from upturn.environments.office.formulas.argument import (
    Argument,
    Function,
    FunctionError,
    Range,
    boolean,
    integer,
    range_of,
    scalar,
    single_value,
)
from upturn.environments.office.formulas.comparison import MAX_CONDITION, Test, compare, is_same, rank, text_matcher
from upturn.environments.office.state import CellError, Value


class _LineEntry(NamedTuple):
    """A value of a row or column and its position, from 0."""

    position: int
    value: Value


def _line(searched: Range) -> Iterator[_LineEntry]:
    """The entries of one row or one column."""
    return (_LineEntry(entry.row + entry.column, entry.value) for entry in searched.entries())


def _wanted(argument: Argument) -> Value:
    """The value to search for; an empty cell is 0."""
    value = scalar(argument)
    return 0.0 if value is None else value


def _equality_test(wanted: Value) -> Test:
    return lambda value: is_same(value, wanted)


def _wildcard_test(wanted: Value) -> Test:
    """A test for equality, with wildcards in texts."""
    if not isinstance(wanted, str):
        return _equality_test(wanted)
    if len(wanted) > MAX_CONDITION:
        raise FunctionError(CellError.VALUE)
    return text_matcher(wanted)


def _first(searched: Range, test: Test) -> int:
    return next((entry.position for entry in _line(searched) if test(entry.value)), -1)


def _last_not_beyond(searched: Range, wanted: Value, *, sign: int) -> int:
    """The position of the last value at most (sign 1) or at least (sign -1) the wanted one; -1 = none."""
    position = -1
    for entry in _line(searched):
        if rank(entry.value) == rank(wanted) and sign * compare(entry.value, wanted) <= 0:
            position = entry.position
    return position


def _nearest(searched: Range, wanted: Value, *, sign: int) -> int:
    """The position of the value nearest to the wanted one from below (sign 1) or above (sign -1); -1 = none."""
    best: _LineEntry | None = None
    for entry in _line(searched):
        if rank(entry.value) != rank(wanted) or sign * compare(entry.value, wanted) > 0:
            continue
        if best is None or sign * compare(entry.value, best.value) > 0:
            best = entry
    return -1 if best is None else best.position


def _is_line(searched: Range) -> bool:
    return 1 in (searched.area.height, searched.area.width)


def _vlookup(arguments: Sequence[Argument]) -> Value:
    wanted, table, column = _wanted(arguments[0]), range_of(arguments[1]), integer(arguments[2])
    if column < 1:
        raise FunctionError(CellError.VALUE)
    if column > table.area.width:
        raise FunctionError(CellError.REFERENCE)
    searched = table.part((0, table.area.height - 1), (0, 0))
    is_near = len(arguments) < 4 or boolean(arguments[3])
    row = _last_not_beyond(searched, wanted, sign=1) if is_near else _first(searched, _wildcard_test(wanted))
    if row < 0:
        raise FunctionError(CellError.MISSING)
    return table.at(row, column - 1)


def _match(arguments: Sequence[Argument]) -> float:
    wanted, searched = _wanted(arguments[0]), range_of(arguments[1])
    if not _is_line(searched):
        raise FunctionError(CellError.MISSING)
    kind = integer(arguments[2]) if len(arguments) > 2 else 1
    if kind == 0:
        position = _first(searched, _wildcard_test(wanted))
    else:
        position = _last_not_beyond(searched, wanted, sign=1 if kind > 0 else -1)
    if position < 0:
        raise FunctionError(CellError.MISSING)
    return float(position + 1)


_MATCH_MODES: Mapping[int, Callable[[Range, Value], int]] = {
    0: lambda searched, wanted: _first(searched, _equality_test(wanted)),
    2: lambda searched, wanted: _first(searched, _wildcard_test(wanted)),
    -1: lambda searched, wanted: _nearest(searched, wanted, sign=1),
    1: lambda searched, wanted: _nearest(searched, wanted, sign=-1),
}
"""XLOOKUP's match modes."""


def _xlookup(arguments: Sequence[Argument]) -> Argument:
    wanted, searched, results = _wanted(arguments[0]), range_of(arguments[1]), range_of(arguments[2])
    is_alike = (searched.area.height, searched.area.width) == (results.area.height, results.area.width)
    search = _MATCH_MODES.get(integer(arguments[4]) if len(arguments) > 4 else 0)
    if not is_alike or not _is_line(searched) or search is None:
        raise FunctionError(CellError.VALUE)
    position = search(searched, wanted)
    if position < 0:
        if len(arguments) > 3:
            return single_value(arguments[3])
        raise FunctionError(CellError.MISSING)
    is_column = searched.area.width == 1
    return results.at(position if is_column else 0, 0 if is_column else position)


def _index(arguments: Sequence[Argument]) -> Argument:
    """A cell, or a whole row or column if the other index is 0."""
    table, row = range_of(arguments[0]), integer(arguments[1])
    height, width = table.area.height, table.area.width
    column = integer(arguments[2]) if len(arguments) > 2 else 0
    if len(arguments) == 2 and height == 1:
        row, column = 1, row
    elif len(arguments) == 2 and width == 1:
        column = 1
    if row < 0 or column < 0:
        raise FunctionError(CellError.VALUE)
    if row > height or column > width:
        raise FunctionError(CellError.REFERENCE)
    return table.part(
        (row - 1, row - 1) if row else (0, height - 1), (column - 1, column - 1) if column else (0, width - 1)
    )


LOOKUPS: Mapping[str, Function] = {
    "VLOOKUP": Function(_vlookup, 3, 4),
    "XLOOKUP": Function(_xlookup, 3, 5),
    "INDEX": Function(_index, 2, 3),
    "MATCH": Function(_match, 2, 3),
}
