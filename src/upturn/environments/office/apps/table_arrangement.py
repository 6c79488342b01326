"""Tables in a sheet: finding columns and reordering rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from upturn.environments.office.formulas import (
    FormulaError,
    displayed_text,
    format_formula,
    parse,
    shift,
    sort_key,
    value_of,
)
from upturn.environments.office.state import (
    Area,
    Book,
    CellFormat,
    OperationError,
    Position,
    Sheet,
    column_letters,
    column_number,
    is_formula,
)

Order = Literal["asc", "desc"]
MAX_CELLS = 20_000
"""Limit on the cells of a table that is changed as a whole."""


def used_table(sheet: Sheet, area: Area | None) -> Area:
    """The used part of an area (None = the used range); raises OperationError if it is empty or too large."""
    used = sheet.used.area
    table = used and (used if area is None else area.intersection(used))
    if table is None:
        raise OperationError("bad_value", f"{'the sheet' if area is None else area.text} is empty")
    if table.size > MAX_CELLS:
        raise OperationError("bad_value", f"at most {MAX_CELLS} cells at once, {table.text} has {table.size}")
    return table


def headers(book: Book, name: str, table: Area) -> dict[int, str]:
    """The values of a table's first row, by column."""
    return {
        column: displayed_text(book, name, Position(column, table.first.row).address) for column in table.columns
    }


def column_of(book: Book, name: str, table: Area, text: str) -> int:
    """The column of a table with this header or letter; raises OperationError if there is none."""
    names = headers(book, name, table)
    wanted = text.casefold()
    for column, header in names.items():
        if header.casefold() == wanted:
            return column
    column = column_number(text) if text.isascii() and text.isalpha() and len(text) <= 3 else 0
    if column not in names:
        known = ", ".join(header or column_letters(number) for number, header in names.items())
        raise OperationError("not_found", f"{table.text} has no column {text[:60]!r}; it has: {known[:400]}")
    return column


def sorting_order(book: Book, name: str, table: Area, *, column: int, order: Order) -> list[int]:
    """The numbers of a table's rows in sorted order; empty cells come last, and equal rows keep their order."""
    filled: list[tuple[tuple[int, float | str], int]] = []
    empty: list[int] = []
    for row in table.rows:
        value = value_of(book, name, Position(column, row).address)
        if value is None:
            empty.append(row)
        else:
            filled.append((sort_key(value), row))
    filled.sort(key=lambda keyed: keyed[0], reverse=order == "desc")  # stable in reverse, too
    return [row for _, row in filled] + empty


def reorder_rows(sheet: Sheet, table: Area, order: Sequence[int]) -> Sheet:
    """The sheet with these rows of the table from its top, including formulas and formats; the rest is empty."""
    texts: dict[str, str] = {}
    formats: dict[str, CellFormat | None] = {}
    for offset, row in enumerate(table.rows):
        source = order[offset] if offset < len(order) else None
        if source == row:
            continue
        for column in table.columns:
            letters = column_letters(column)
            target, origin = f"{letters}{row}", f"{letters}{source}"
            text = "" if source is None else shift_rows(sheet.cells.get(origin, ""), rows=row - source)
            if text != sheet.cells.get(target, ""):
                texts[target] = text
            if sheet.formats:
                formats[target] = None if source is None else sheet.formats.get(origin)
    return with_formats(sheet.with_cells(texts), formats)


@lru_cache(maxsize=4_096)
def shift_rows(text: str, *, rows: int) -> str:
    """A cell's text moved down by ``rows``, with relative references."""
    if not is_formula(text):
        return text
    try:
        return format_formula(shift(parse(text).tree, columns=0, rows=rows))
    except FormulaError:
        return text


def with_formats(sheet: Sheet, formats: Mapping[str, CellFormat | None]) -> Sheet:
    """The sheet with these cell formats; None = the default."""
    if not sheet.formats and not any(formats.values()):
        return sheet
    merged: dict[str, CellFormat | None] = {**sheet.formats, **formats}
    return replace(sheet, formats={address: look for address, look in merged.items() if look is not None})


def visible_rows(book: Book, name: str, rows: Sequence[int]) -> list[int]:
    """The rows that the sheet's filters leave visible; the first used row is always visible."""
    sheet = book.sheets[name]
    header = sheet.used.area.first.row if sheet.used.area is not None else 0
    return [
        row
        for row in rows
        if row <= header
        or all(
            displayed_text(book, name, f"{letters}{row}").casefold() == wanted.casefold()
            for letters, wanted in sheet.filters.items()
        )
    ]
