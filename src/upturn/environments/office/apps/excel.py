"""Workbooks: reading sheets, writing cells and formulas, sorting, summarising and formatting them.

A workbook is the content of a file. Reading needs the right to read it, other operations the right to edit it;
opening a sensitive workbook costs. Every change keeps the old content as a version. Cells hold texts in canonical
form (007 is 7, ``= sum( b2:b5 )`` is ``=SUM(B2:B5)``), so that equal contents are equal texts.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from upturn.environments.office.apps.cell_block import MAX_WRITTEN, CellText, Rows
from upturn.environments.office.apps.macro import MACROS, MacroName
from upturn.environments.office.apps.open_workbook import (
    OpenedSheet,
    find_sheet,
    formula_values,
    normalize_input,
    open_workbook,
    parse_formula,
    with_cells,
)
from upturn.environments.office.apps.operation import (
    App,
    Effect,
    Id,
    PageNumber,
    Parameters,
    Text,
    format_page,
    paginate,
)
from upturn.environments.office.apps.pivot import pivot_cells
from upturn.environments.office.apps.sheet_view import cell_list, format_look, format_rows, outline, shorten
from upturn.environments.office.apps.table_arrangement import (
    Order,
    column_of,
    reorder_rows,
    sorting_order,
    visible_rows,
    with_formats,
)
from upturn.environments.office.formulas import displayed_text, format_formula, quote_sheet, shift, value_of
from upturn.environments.office.state import (
    Aggregate,
    Area,
    CellFormat,
    Chart,
    ChartKind,
    OperationError,
    Pivot,
    Position,
    Right,
    Sheet,
    Workspace,
    area_of,
    column_letters,
    is_formula,
    position_of,
)

APP = App("excel")
_MAX_SHEETS = 50
_SHEET_NAME = re.compile(r"[^\\/?*:\[\]\x00-\x1f]{1,31}")
_COLOURS = {
    "yellow": "FFFF00",
    "green": "92D050",
    "red": "FF0000",
    "orange": "FFC000",
    "blue": "00B0F0",
    "grey": "BFBFBF",
    "none": "",
}
_FILL = re.compile(r"[0-9A-F]{6}")

Cell = Annotated[str, AfterValidator(lambda text: position_of(text).address), Field(description="such as B3")]
Cells = Annotated[
    str, AfterValidator(lambda text: area_of(text).text), Field(description="such as A1:B4, B3 or B:D")
]
NumberFormat = Literal["general", "0", "0.00", "0%", "0.0%", "#,##0", "#,##0.00", "yyyy-mm-dd"]


def _colour(text: str) -> str:
    colour = _COLOURS.get(text.lower(), text.removeprefix("#").upper())
    if colour and not _FILL.fullmatch(colour):
        raise OperationError(
            "bad_value", f"fill is one of {', '.join(_COLOURS)}, or six hex digits; got {text[:60]!r}"
        )
    return colour


class BookParameters(Parameters):
    """Parameters of every operation on a workbook."""

    id: Id = Field(description="of the file")


class SheetParameters(BookParameters):
    """Parameters of every operation on a sheet."""

    sheet: Id | None = Field(None, description="left out = the only one")


class Open(BookParameters):
    """Shows the sheets of a workbook: what they take up, their headers and first rows."""

    page: PageNumber = 1


class ReadRange(SheetParameters):
    """Shows the cells of a range; rows that a filter hides are left out."""

    range: Cells | None = Field(None, description="such as A1:B4; left out = all that is used")
    show: Literal["values", "formulas", "formats"] = "values"
    page: PageNumber = 1


class Find(SheetParameters):
    """Finds cells by what they show, in all sheets or one."""

    text: Text
    is_whole: bool = Field(False, description="whether the cell shows nothing else")
    sheet: Id | None = Field(None, description="left out = all")
    page: PageNumber = 1


class WriteRange(SheetParameters):
    """Writes a block of values or formulas, from a cell to the right and down."""

    at: Cell = Field(description="the upper left cell, such as B3")
    rows: Rows


class InsertFormula(SheetParameters):
    """Writes a formula into a cell, or into all cells of a range, each naming cells as far away as the first."""

    range: Cells
    formula: CellText = Field(min_length=1, description="such as =SUM(B2:B5)")


class CreateChart(SheetParameters):
    """Draws a range whose first row is its header."""

    kind: ChartKind
    range: Cells
    title: CellText = ""


class PivotTable(SheetParameters):
    """Sums up a table by one of its columns, into cells from ``at`` on."""

    rows: Text = Field(description="header or letter of the column whose values become rows")
    values: Text = Field(description="header or letter of the column that is summed up")
    how: Aggregate = "sum"
    at: Cell
    to_sheet: Id | None = Field(None, description="where it is written; left out = the same sheet")
    range: Cells | None = Field(None, description="the table with its header; left out = all that is used")


class Sort(SheetParameters):
    """Puts the rows of a table into the order of one column."""

    by: Text = Field(description="header or letter of the column")
    order: Order = "asc"
    range: Cells | None = Field(None, description="the table with its header; left out = all that is used")
    has_header: bool = Field(True, description="whether the first row stays where it is")


class Filter(SheetParameters):
    """Shows only rows that have this value in a column; without a value shows all again."""

    column: Text = Field(description="header or letter")
    value: CellText = ""


class Format(SheetParameters):
    """Changes how cells look; what is not given stays."""

    range: Cells
    bold: bool | None = None
    italic: bool | None = None
    fill: Annotated[str, AfterValidator(_colour)] | None = Field(
        None, description="yellow, green, red, orange, blue, grey, none, or six hex digits"
    )
    number: NumberFormat | None = None


class AddSheet(BookParameters):
    """Adds an empty sheet behind the others."""

    name: Text


class RunMacro(SheetParameters):  # noqa: D101  # below
    name: MacroName
    range: Cells | None = Field(None, description="the table with its header; left out = all that is used")


RunMacro.__doc__ = (
    f"Runs a macro on a table: {'; '.join(f'{name} {macro.about}' for name, macro in MACROS.items())}."
)


def _sheet(workspace: Workspace, request: SheetParameters, right: Right = "edit") -> OpenedSheet:
    """The sheet of the request; raises OperationError if it does not exist or the right is missing."""
    opened = open_workbook(workspace, request.id, right)
    return OpenedSheet(opened, opened.named(request.sheet))


@APP.operation(Open, is_reading=True)
def _open(workspace: Workspace, request: Open) -> Effect:
    opened = open_workbook(workspace, request.id, "read")
    shown = paginate(list(opened.book.sheets), page=request.page, shown=5)
    lines = [line for name in shown.items for line in outline(opened.book, name)]
    return opened.unchanged("\n".join((opened.file.path, *lines, *([shown.note] if shown.note else []))))


@APP.operation(ReadRange, is_reading=True)
def _read_range(workspace: Workspace, request: ReadRange) -> Effect:
    """One line per row with cells separated by ``|``; for one cell its value alone."""
    opened, name = target = _sheet(workspace, request, "read")
    sheet = target.sheet
    area = None if request.range is None else area_of(request.range)
    if area is not None and area.size == 1 and request.show == "values":
        return opened.unchanged(displayed_text(opened.book, name, area.text) or "empty")
    used = sheet.used.area if area is None else sheet.used.area and area.intersection(sheet.used.area)
    if used is None:
        return opened.unchanged("empty")
    if request.show == "values":
        return opened.unchanged(format_rows(opened.book, name, used, page=request.page))
    if request.show == "formulas":
        texts = {at: sheet.cells[at] for at in sheet.used.formulas}
    else:
        texts = {at: format_look(look) for at, look in sheet.formats.items()}
    return opened.unchanged(cell_list(texts, used, page=request.page, empty=f"no {request.show}"))


@APP.operation(Find, is_reading=True)
def _find(workspace: Workspace, request: Find) -> Effect:
    opened = open_workbook(workspace, request.id, "read")
    names: Sequence[str] = list(opened.book.sheets) if request.sheet is None else [opened.named(request.sheet)]
    wanted = request.text.casefold()
    hits = []
    for name in names:
        sheet = opened.book.sheets[name]
        for address, text in sheet.cells.items():
            shown = displayed_text(opened.book, name, address) if is_formula(text) else text.removeprefix("'")
            folded = shown.casefold()
            if wanted == folded or (not request.is_whole and wanted in folded):
                position = position_of(address)
                hits.append(
                    (name, position.row, position.column, f"{quote_sheet(name)}!{address}: {shorten(shown)}")
                )
    order = {name: at for at, name in enumerate(names)}
    hits.sort(key=lambda hit: (order[hit[0]], *hit[1:3]))
    return opened.unchanged(
        format_page([hit[-1] for hit in hits], page=request.page, shown=20, empty="no such cells")
    )


@APP.operation(WriteRange)
def _write_range(workspace: Workspace, request: WriteRange) -> Effect:
    target = _sheet(workspace, request)
    area = _block_area(position_of(request.at), request.rows)
    texts = {
        at: normalize_input(target.book, target.name, text) for at, text in _texts_at(area, request.rows).items()
    }
    return _write(target, texts, f"wrote {area.text}")


def _texts_at(area: Area, rows: Iterable[Iterable[str]]) -> dict[str, str]:
    """The texts of a block by address."""
    first = area.first
    return {
        Position(column, row).address: text
        for row, texts in enumerate(rows, start=first.row)
        for column, text in enumerate(texts, start=first.column)
    }


def _block_area(first: Position, rows: tuple[tuple[str, ...], ...]) -> Area:
    widths = {len(row) for row in rows}
    if len(widths) > 1 or 0 in widths:
        raise OperationError("bad_value", f"rows must be equally long, got {sorted(widths)} cells")
    area = Area(first, Position(first.column + len(rows[0]) - 1, first.row + len(rows) - 1))
    _check_writable(area)
    return area


def _check_writable(area: Area) -> None:
    if area.size > MAX_WRITTEN:
        raise OperationError("bad_value", f"at most {MAX_WRITTEN} cells at once, got {area.size}")
    if not area.last.is_on_sheet:
        raise OperationError("bad_value", f"no sheet reaches to {area.last.address}")


def _write(target: OpenedSheet, texts: dict[str, str], text: str) -> Effect:
    book = with_cells(target.book, target.name, texts)
    values = formula_values(book, target.name, texts)
    return target.opened.saved(book, f"{text}; {values}" if values else text)


@APP.operation(InsertFormula)
def _insert_formula(workspace: Workspace, request: InsertFormula) -> Effect:
    target, area = _sheet(workspace, request), area_of(request.range)
    _check_writable(area)
    formula = request.formula if request.formula.startswith("=") else f"={request.formula}"
    tree = parse_formula(target.book, target.name, formula)
    rows = ((format_formula(shift(tree, columns=x, rows=y)) for x in range(area.width)) for y in range(area.height))
    return _write(target, _texts_at(area, rows), f"wrote {area.text}")


@APP.operation(CreateChart)
def _create_chart(workspace: Workspace, request: CreateChart) -> Effect:
    target = _sheet(workspace, request)
    sheet, table = target.sheet, target.table(request.range)
    values = (value_of(target.book, target.name, at) for _, at in sheet.filled(table))
    if table.height < 2 or not any(isinstance(value, float) for value in values):
        raise OperationError("bad_value", f"a chart needs a header and numbers below it; {request.range} has none")
    charts = (*sheet.charts, Chart(request.kind, request.range, request.title))
    return target.saved(replace(sheet, charts=charts), f"{request.kind} chart of {request.range} on {target.name}")


@APP.operation(PivotTable)
def _pivot_table(workspace: Workspace, request: PivotTable) -> Effect:
    opened, name = source_sheet = _sheet(workspace, request)
    book = opened.book
    target = source_sheet if request.to_sheet is None else OpenedSheet(opened, opened.named(request.to_sheet))
    source = source_sheet.table(request.range)
    rows, values = (column_of(book, name, source, text) for text in (request.rows, request.values))
    table = pivot_cells(book, name, source, rows=rows, values=values, how=request.how)
    area = _block_area(position_of(request.at), tuple(map(tuple, table)))
    sheet = target.sheet
    occupied = next((address for _, address in sheet.filled(area)), None)
    if occupied is not None:
        raise OperationError("bad_value", f"{area.text} is needed and {occupied} is not empty; choose another at")
    first, last = (Position(column, source.first.row).address for column in (rows, values))
    pivot = Pivot(
        source.text if target == source_sheet else f"{quote_sheet(name)}!{source.text}",
        displayed_text(book, name, first) or first,
        displayed_text(book, name, last) or last,
        request.how,
        request.at,
    )
    after = replace(sheet.with_cells(_texts_at(area, table)), pivots=(*sheet.pivots, pivot))
    return target.saved(after, f"pivot table in {area.text}; total {table[-1][1]}")


@APP.operation(Sort)
def _sort(workspace: Workspace, request: Sort) -> Effect:
    """Sorts the rows; formulas move with them."""
    target = _sheet(workspace, request)
    table = target.table(request.range)
    column = column_of(target.book, target.name, table, request.by)
    body = table.below(1) if request.has_header else table
    if body is None:
        raise OperationError("bad_value", f"{table.text} has no rows below its header")
    order = sorting_order(target.book, target.name, body, column=column, order=request.order)
    after = reorder_rows(target.sheet, body, order)
    return target.recomputed(after, f"sorted {body.text} by {request.by}, {request.order}")


@APP.operation(Filter)
def _filter(workspace: Workspace, request: Filter) -> Effect:
    opened, name = target = _sheet(workspace, request)
    sheet, table = target.sheet, target.table(None)
    letters = column_letters(column_of(opened.book, name, table, request.column))
    filters = {column: value for column, value in sheet.filters.items() if column != letters}
    if request.value:
        values = [displayed_text(opened.book, name, f"{letters}{row}") for row in table.rows[1:]]
        value = next((shown for shown in values if shown.casefold() == request.value.casefold()), None)
        if value is None:
            known = ", ".join(dict.fromkeys(values))
            raise OperationError("not_found", f"no row has {request.value[:60]!r} there; there are: {known[:200]}")
        filters[letters] = value
    book = opened.book.with_sheet(name, replace(sheet, filters=filters))
    visible = visible_rows(book, name, table.rows[1:])
    return opened.saved(book, f"{len(visible)} of {table.height - 1} rows are shown")


@APP.operation(Format)
def _format(workspace: Workspace, request: Format) -> Effect:
    target, area = _sheet(workspace, request), area_of(request.range)
    if not request.model_fields_set & {"bold", "italic", "fill", "number"}:
        raise OperationError("missing_parameter", "give at least one of bold, italic, fill, number")
    sheet = target.sheet
    if area.size > MAX_WRITTEN:
        area = (sheet.used.area and area.intersection(sheet.used.area)) or area
    _check_writable(area)
    addresses = [Position(column, row).address for row in area.rows for column in area.columns]
    formats = {address: _changed_format(sheet.formats.get(address, CellFormat()), request) for address in addresses}
    return target.saved(with_formats(sheet, formats), f"formatted {area.text}")


def _changed_format(before: CellFormat, request: Format) -> CellFormat | None:
    """The changed format; None = the default."""
    after = CellFormat(
        before.is_bold if request.bold is None else request.bold or None,
        before.is_italic if request.italic is None else request.italic or None,
        before.fill if request.fill is None else request.fill or None,
        before.number if request.number is None else (None if request.number == "general" else request.number),
    )
    return None if after == CellFormat() else after


@APP.operation(AddSheet)
def _add_sheet(workspace: Workspace, request: AddSheet) -> Effect:
    opened = open_workbook(workspace, request.id, "edit")
    if not _SHEET_NAME.fullmatch(request.name) or request.name[0] == "'" or request.name[-1] == "'":
        raise OperationError(
            "bad_value", f"names have 1 to 31 characters, none of \\ / ? * : [ ]; got {request.name[:60]!r}"
        )
    if (occupied := find_sheet(opened.book, request.name)) is not None:
        raise OperationError("bad_value", f"there is a sheet {occupied!r} already")
    if len(opened.book.sheets) >= _MAX_SHEETS:
        raise OperationError("bad_value", f"a workbook has at most {_MAX_SHEETS} sheets")
    return opened.saved(opened.book.with_sheet(request.name, Sheet({})), f"added {request.name}")


@APP.operation(RunMacro)
def _run_macro(workspace: Workspace, request: RunMacro) -> Effect:
    target = _sheet(workspace, request)
    sheet, table = target.sheet, target.table(request.range)
    after = MACROS[request.name].run(target.book, target.name, table)
    different = sum(
        sheet.cells.get(address) != after.cells.get(address) for address in {**sheet.cells, **after.cells}
    )
    return target.recomputed(after, f"{request.name} on {table.text}: {different} cells changed")
