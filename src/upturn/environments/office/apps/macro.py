"""Macros: a fixed set of table changes, each a pure function. Agents cannot write new ones."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from upturn.environments.office.apps.table_arrangement import reorder_rows, with_formats
from upturn.environments.office.formulas import displayed_text, sort_key, trim_spaces, value_of
from upturn.environments.office.state import (
    Area,
    Book,
    CellFormat,
    OperationError,
    Position,
    Sheet,
    cell_text,
    column_letters,
    is_formula,
    normalize_text,
)

MacroName = Literal[
    "trim_text",
    "text_to_numbers",
    "remove_duplicates",
    "remove_empty_rows",
    "fill_blanks_with_zero",
    "fill_down",
    "total_row",
    "values_only",
    "bold_header",
    "freeze_header",
]
TOTAL = "Total"
_WRITTEN_NUMBER = re.compile(
    r"'?\s*(-?)\s*[$€£]?\s*([0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)\s*[€£]?\s*"
)


@dataclass(frozen=True, slots=True)
class Macro:
    """One macro."""

    run: Callable[[Book, str, Area], Sheet]
    """The changed sheet, from a book, a sheet's name and a table with a header row."""
    about: str
    """The description for agents."""


def _texts(change: Callable[[str], str]) -> Callable[[Book, str, Area], Sheet]:
    """A macro that changes every cell without a formula."""

    def run(book: Book, name: str, table: Area) -> Sheet:
        sheet = book.sheets[name]
        cells = {address: sheet.cells[address] for _, address in sheet.filled(table)}
        return sheet.with_cells({at: change(text) for at, text in cells.items() if not is_formula(text)})

    return run


def _as_number(text: str) -> str:
    """The number in a text such as 1,200 or $5, or the text itself."""
    match = _WRITTEN_NUMBER.fullmatch(text)
    return normalize_text(f"{match[1]}{match[2].replace(',', '')}") if match is not None else text


def _remove_duplicates(book: Book, name: str, table: Area) -> Sheet:
    seen: set[tuple[tuple[int, float | str], ...]] = set()
    rows = [table.first.row]
    for row in table.rows[1:]:
        values = [value_of(book, name, Position(column, row).address) for column in table.columns]
        key = tuple(map(sort_key, values))
        if key not in seen:
            seen.add(key)
            rows.append(row)
    return reorder_rows(book.sheets[name], table, rows)


def _remove_empty_rows(book: Book, name: str, table: Area) -> Sheet:
    sheet = book.sheets[name]
    filled = {position.row for position, _ in sheet.filled(table)}
    return reorder_rows(sheet, table, [row for row in table.rows if row in filled])


def _fill_with_zero(book: Book, name: str, table: Area) -> Sheet:
    sheet = book.sheets[name]
    addresses = (Position(column, row).address for row in table.rows[1:] for column in table.columns)
    return sheet.with_cells({address: "0" for address in addresses if address not in sheet.cells})


def _fill_down(book: Book, name: str, table: Area) -> Sheet:
    sheet = book.sheets[name]
    texts: dict[str, str] = {}
    for column in table.columns:
        above = ""
        for row in table.rows[1:]:
            address = Position(column, row).address
            if address in sheet.cells:
                above = cell_text(value_of(book, name, address))
            elif above:
                texts[address] = above
    return sheet.with_cells(texts)


def _total_row(book: Book, name: str, table: Area) -> Sheet:
    sheet, below = book.sheets[name], table.last.row + 1
    if table.height < 2:
        raise OperationError("bad_value", f"{table.text} has no rows below its header")
    if displayed_text(book, name, table.first._replace(row=table.last.row).address) == TOTAL:
        raise OperationError("bad_value", f"row {table.last.row} is a total already")
    texts = {Position(table.first.column, below).address: TOTAL}
    for column in list(table.columns)[1:]:
        letters = column_letters(column)
        values = [value_of(book, name, f"{letters}{row}") for row in table.rows[1:]]
        if any(isinstance(value, float) for value in values):
            texts[f"{letters}{below}"] = f"=SUM({letters}{table.first.row + 1}:{letters}{table.last.row})"
    occupied = [address for address in texts if address in sheet.cells]
    if occupied or not Position(1, below).is_on_sheet:
        raise OperationError("bad_value", f"there is no room for a total below {table.text}: {', '.join(occupied)}")
    return sheet.with_cells(texts)


def _values_only(book: Book, name: str, table: Area) -> Sheet:
    formulas = book.sheets[name].used.formulas
    inside = [address for address, position in formulas.items() if position in table]
    return book.sheets[name].with_cells({address: cell_text(value_of(book, name, address)) for address in inside})


def _bold_header(book: Book, name: str, table: Area) -> Sheet:
    sheet = book.sheets[name]
    addresses = [Position(column, table.first.row).address for column in table.columns]
    formats = {address: replace(sheet.formats.get(address, CellFormat()), is_bold=True) for address in addresses}
    return with_formats(sheet, formats)


MACROS: Mapping[MacroName, Macro] = {
    "trim_text": Macro(
        _texts(lambda text: normalize_text(trim_spaces(text))), "takes needless blanks out of texts"
    ),
    "text_to_numbers": Macro(_texts(_as_number), "makes numbers of texts such as 1,200 or $5"),
    "remove_duplicates": Macro(_remove_duplicates, "takes out rows that say the same as one above"),
    "remove_empty_rows": Macro(_remove_empty_rows, "takes out rows without anything in them"),
    "fill_blanks_with_zero": Macro(_fill_with_zero, "writes 0 into empty cells below the header"),
    "fill_down": Macro(_fill_down, "writes what stands above into empty cells below the header"),
    "total_row": Macro(_total_row, "writes Total and the sums of columns of numbers below the table"),
    "values_only": Macro(_values_only, "replaces formulas by what they show"),
    "bold_header": Macro(_bold_header, "makes the first row bold"),
    "freeze_header": Macro(
        lambda book, name, table: replace(book.sheets[name], frozen_rows=table.first.row),
        "keeps the first row in sight",
    ),
}
assert set(MACROS) == set(get_args(MacroName))
