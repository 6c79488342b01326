"""Workbooks: sheets of cells with formats, charts and pivot tables. Never changed in place."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Literal, NamedTuple

from upturn.environments.office.state.address import Area, Position, bounding_area, column_letters, position_of
from upturn.environments.office.state.cell import Value, is_formula
from upturn.records import record

ChartKind = Literal["bar", "line", "pie", "scatter"]
Aggregate = Literal["sum", "average", "count", "max", "min"]


@record
class CellFormat:
    """The format of a cell; None = the default."""

    is_bold: bool | None = None
    is_italic: bool | None = None
    fill: str | None = None
    """Six hex digits, red first."""
    number: str | None = None
    """``0``, ``0.00``, ``0%``, ``#,##0``, ``yyyy-mm-dd``; in imported books also ``h:mm``, ``h:mm AM/PM`` and
    ``[h]:mm``, for numbers of days."""


@record
class Chart:
    """A chart of a range."""

    kind: ChartKind
    range: str
    """``A1:B7``, its first row being the header."""
    title: str = ""


@record
class Pivot:
    """A summary of a range by one of its columns."""

    source: str
    """``A1:D20``, its first row being the header."""
    rows: str
    """Header of the column whose values become rows."""
    values: str
    """Header of the column that is summarised."""
    how: Aggregate
    at: str
    """The upper left cell of the table that it wrote."""


_SPARSE = 4
"""An area that is this many times larger than the number of cells is searched cell by cell, not by position."""


class Used(NamedTuple):
    """The used range of a sheet."""

    area: Area | None
    """From the first to the last non-empty row and column; None if the sheet is empty."""
    formulas: Mapping[str, Position]
    """Formula cells by address."""


@record
class Sheet:
    """One sheet of a workbook."""

    cells: Mapping[str, str]
    """By address, such as ``B3``; a text that starts with ``=`` is a formula. Empty cells are absent."""
    formats: Mapping[str, CellFormat] = field(default_factory=dict)
    """By address; cells of the default format are absent."""
    charts: tuple[Chart, ...] = ()
    pivots: tuple[Pivot, ...] = ()
    filters: Mapping[str, str] = field(default_factory=dict)
    """By column letter: rows below the first used one are visible only with this value."""
    frozen_rows: int = 0
    """Frozen rows at the top."""
    memo: list[Used] = field(default_factory=list, init=False, repr=False, compare=False)
    """Cache of ``used``."""
    columns: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cache of ``formulas_in``: rows of formulas by column, in order; filled at first use."""

    @property
    def used(self) -> Used:
        """The used range; cached."""
        if not self.memo:
            self.memo.append(_used(self.cells))
        return self.memo[0]

    def filled(self, area: Area) -> Iterator[tuple[Position, str]]:
        """Positions and addresses of the cells of an area that are not empty, row by row."""
        used = self.used.area and area.intersection(self.used.area)
        if used is None:
            return
        if used.size > _SPARSE * len(self.cells):
            cells = [(at, address) for address in self.cells if (at := position_of(address)) in used]
            yield from sorted(cells, key=lambda cell: (cell[0].row, cell[0].column))
            return
        columns = [(column, column_letters(column)) for column in used.columns]
        for row in used.rows:
            for column, letters in columns:
                if (address := f"{letters}{row}") in self.cells:
                    yield Position(column, row), address

    def formulas_in(self, area: Area) -> Iterator[str]:
        """The addresses of an area's formula cells, column by column."""
        if not self.columns:
            for position in sorted(self.used.formulas.values()):
                self.columns.setdefault(position.column, []).append(position.row)
        in_use = (column for column in self.columns if column in area.columns)
        for column in area.columns if area.width <= len(self.columns) else in_use:
            rows, letters = self.columns.get(column, []), column_letters(column)
            for row in rows[bisect_left(rows, area.first.row) : bisect_right(rows, area.last.row)]:
                yield f"{letters}{row}"

    def with_cells(self, texts: Mapping[str, str]) -> "Sheet":
        """The sheet with these texts by address; an empty text clears the cell."""
        cells = dict(self.cells)
        for address, text in texts.items():
            if text:
                cells[address] = text
            else:
                cells.pop(address, None)
        sheet = replace(self, cells=cells)
        if self.memo and (used := _used_after(self, texts)) is not None:
            sheet.memo.append(used)
        return sheet


@record
class Book:
    """A workbook."""

    sheets: Mapping[str, Sheet]
    values: dict[tuple[str, str], Value] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cache of ``calculation``: values of formulas by sheet and address. Not part of the state."""

    def with_sheet(self, name: str, sheet: Sheet) -> "Book":
        """The book with this sheet added at the end or replaced; keeps the caches of unchanged cells."""
        book = replace(self, sheets={**self.sheets, name: sheet})
        before = self.sheets.get(name)
        if before is not None and before.cells is sheet.cells:
            book.values.update(self.values)
            sheet.memo[:] = before.memo
            sheet.columns.update(before.columns)
        return book


def _used(cells: Mapping[str, str]) -> Used:
    formulas = {address: position_of(address) for address, text in cells.items() if is_formula(text)}
    return Used(bounding_area(map(position_of, cells)) if cells else None, formulas)


def _used_after(before: Sheet, texts: Mapping[str, str]) -> Used | None:
    """The used range after writing these texts, without a full scan; None if a cell at the edge is cleared."""
    area, formulas = before.used
    for address, text in texts.items():
        was_filled = address in before.cells
        if text and not was_filled:
            area = bounding_area((*(area or ()), position_of(address)))
        elif was_filled and not text and area is not None and _is_at_edge(area, position_of(address)):
            return None
    touched = {address: position_of(address) for address, text in texts.items() if is_formula(text)}
    if touched or any(address in formulas for address in texts):
        formulas = {address: at for address, at in formulas.items() if address not in texts} | touched
    return Used(area, formulas)


def _is_at_edge(area: Area, position: Position) -> bool:
    columns, rows = (area.first.column, area.last.column), (area.first.row, area.last.row)
    return position in area and (position.column in columns or position.row in rows)
