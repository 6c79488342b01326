"""Pivot tables: a table summarised by one of its columns."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from upturn.environments.office.apps.table_arrangement import headers
from upturn.environments.office.formulas import sort_key, value_of
from upturn.environments.office.state import (
    Aggregate,
    Area,
    Book,
    CellError,
    OperationError,
    Position,
    Value,
    cell_text,
    column_letters,
    display_text,
)

TOTAL = "Grand Total"
NO_LABEL = "(blank)"
_AGGREGATES: Mapping[Aggregate, Callable[[Sequence[float]], Value]] = {
    "sum": math.fsum,
    "average": lambda numbers: math.fsum(numbers) / len(numbers) if numbers else CellError.DIVISION,
    "max": lambda numbers: max(numbers, default=0.0),
    "min": lambda numbers: min(numbers, default=0.0),
}


class _Row(NamedTuple):
    """One row of the source."""

    label: Value
    value: Value


def pivot_cells(book: Book, name: str, source: Area, *, rows: int, values: int, how: Aggregate) -> list[list[str]]:
    """Texts of the cells of a pivot table: header, one row per label, in order, and total.

    ``rows``, ``values``: column numbers. ``count`` counts all values, other aggregates use numbers only. Raises
    OperationError for error values.
    """
    names = headers(book, name, source)
    table = [[cell_text(names[rows]), f"{how} of {names[values]}"]]
    groups: dict[tuple[int, float | str], list[_Row]] = {}
    for row in _rows(book, name, source, rows=rows, values=values):
        groups.setdefault(sort_key(row.label), []).append(row)
    for _, group in sorted(groups.items(), key=lambda keyed: keyed[0]):
        label = group[0].label
        table.append([NO_LABEL if label is None else cell_text(label), _summary(group, how)])
    table.append([TOTAL, _summary([row for group in groups.values() for row in group], how)])
    return table


def _rows(book: Book, name: str, source: Area, *, rows: int, values: int) -> Iterator[_Row]:
    for row in source.rows[1:]:
        address = f"{column_letters(values)}{row}"
        value = value_of(book, name, address)
        if isinstance(value, CellError):
            raise OperationError("bad_value", f"{address} shows {display_text(value)}; a pivot table needs numbers")
        label = value_of(book, name, Position(rows, row).address)
        if label is not None or value is not None:
            yield _Row(label, value)


def _summary(group: Sequence[_Row], how: Aggregate) -> str:
    if how == "count":
        return str(sum(row.value is not None for row in group))
    return cell_text(_AGGREGATES[how]([row.value for row in group if isinstance(row.value, float)]))
