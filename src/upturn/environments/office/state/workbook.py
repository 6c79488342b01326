"""Workbooks: sheets of cells with formats, charts and pivot tables. Never changed in place."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Literal, NamedTuple

from upturn.environments.office.state.address import Area, Position, area_between, column_letters, position_of
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
    """``0``, ``0.00``, ``0%``, ``#,##0``, ``yyyy-mm-dd``."""


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
    """The cell that its own header begins in."""


_SPARSE = 4
"""An area so many times as large as there are cells is searched by cells, not by places."""


class Used(NamedTuple):
    """The used range of a sheet."""

    area: Area | None
    """From the first to the last non-empty row and column; None = the sheet is empty."""
    formulas: Mapping[str, Position]
    """Formula cells by address."""


@record
class Sheet:
    """One page of cells."""

    cells: Mapping[str, str]
    """By address, such as ``B3``; a value that begins with ``=`` is a formula. Empty cells are not there."""
    formats: Mapping[str, CellFormat] = field(default_factory=dict)
    """By address, without cells of the default format."""
    charts: tuple[Chart, ...] = ()
    pivots: tuple[Pivot, ...] = ()
    filters: Mapping[str, str] = field(default_factory=dict)
    """By column letter: rows below the first used one are visible only with this value."""
    frozen_rows: int = 0
    """Frozen rows at the top."""
    memo: list[Used] = field(default_factory=list, init=False, repr=False, compare=False)
    """Of ``used``."""
    columns: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Of ``formulas_in``: rows of formulas by column, in order; empty until somebody asks."""

    @property
    def used(self) -> Used:
        """The used range; cached."""
        if not self.memo:
            self.memo.append(_used(self.cells))
        return self.memo[0]

    def filled(self, area: Area) -> Iterator[tuple[Position, str]]:
        """The cells of an area that are not empty, by place and address, row by row."""
        used = self.used.area and area.within(self.used.area)
        if used is None:
            return
        if used.size > _SPARSE * len(self.cells):
            cells = [(place, address) for address in self.cells if (place := position_of(address)) in used]
            yield from sorted(cells, key=lambda placed: (placed[0].row, placed[0].column))
            return
        columns = [(column, column_letters(column)) for column in used.columns]
        for row in used.rows:
            for column, letters in columns:
                if (address := f"{letters}{row}") in self.cells:
                    yield Position(column, row), address

    def formulas_in(self, area: Area) -> Iterator[str]:
        """The addresses of an area's formula cells, column by column."""
        if not self.columns:
            for place in sorted(self.used.formulas.values()):
                self.columns.setdefault(place.column, []).append(place.row)
        is_narrow = area.width <= len(self.columns)
        for column in (
            area.columns if is_narrow else (candidate for candidate in self.columns if candidate in area.columns)
        ):
            rows = self.columns.get(column, [])
            letters = column_letters(column)
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
    """Of formulas, by sheet and address: what ``calculation`` remembers, and no part of the state."""

    def with_sheet(self, name: str, sheet: Sheet) -> "Book":
        """The book with this sheet added at the end or replaced; caches of equal cells are kept."""
        book = replace(self, sheets={**self.sheets, name: sheet})
        before = self.sheets.get(name)
        if before is not None and before.cells is sheet.cells:
            book.values.update(self.values)
            sheet.memo[:] = before.memo
            sheet.columns.update(before.columns)
        return book


def _used(cells: Mapping[str, str]) -> Used:
    formulas = {address: position_of(address) for address, text in cells.items() if is_formula(text)}
    return Used(_area(map(position_of, cells)), formulas)


def _area(places: Iterable[Position]) -> Area | None:
    cells = tuple(places)
    if not cells:
        return None
    columns, rows = [place.column for place in cells], [place.row for place in cells]
    return area_between(Position(min(columns), min(rows)), Position(max(columns), max(rows)))


def _used_after(before: Sheet, texts: Mapping[str, str]) -> Used | None:
    """Without looking at all cells; None where an emptied cell lies at the edge."""
    area, formulas = before.used
    for address, text in texts.items():
        was_filled = address in before.cells
        if text and not was_filled:
            area = _grown(area, position_of(address))
        elif was_filled and not text and area is not None and _is_at_edge(area, position_of(address)):
            return None
    touched = {address: position_of(address) for address, text in texts.items() if is_formula(text)}
    if touched or any(address in formulas for address in texts):
        kept = {address: place for address, place in formulas.items() if address not in texts}
        formulas = kept | touched
    return Used(area, formulas)


def _grown(area: Area | None, place: Position) -> Area:
    if area is None:
        return Area(place, place)
    if place in area:
        return area
    first = Position(min(area.first.column, place.column), min(area.first.row, place.row))
    return Area(first, Position(max(area.last.column, place.column), max(area.last.row, place.row)))


def _is_at_edge(area: Area, place: Position) -> bool:
    columns, rows = (area.first.column, area.last.column), (area.first.row, area.last.row)
    return place in area and (place.column in columns or place.row in rows)
