"""Sheets as agents see them: outlines, rows, lists of cells."""

from collections.abc import Mapping

from upturn.environments.office.apps.operation import format_page, paginate
from upturn.environments.office.apps.table_arrangement import visible_rows
from upturn.environments.office.formulas import displayed_text
from upturn.environments.office.state import Area, Book, CellFormat, Position, column_letters, position_of

CELLS_SHOWN = 200
"""Cells per page."""
_COLUMNS_SHOWN = 50
_SAMPLE = 4
"""Rows in an outline, including the header."""
_TEXT_SHOWN = 60
"""Characters shown of a cell among others."""


def outline(book: Book, name: str) -> list[str]:
    """A sheet's extent, header, first rows, charts, pivot tables and filters."""
    sheet = book.sheets[name]
    area = sheet.used.area
    lines = [f"{name}: empty" if area is None else f"{name}: {area.text}, {area.height} rows"]
    if area is not None:
        shown = _clipped(area)
        lines += [_row(book, name, shown, row) for row in shown.rows[:_SAMPLE]]
    lines += [f"{chart.kind} chart of {chart.range} {chart.title}".rstrip() for chart in sheet.charts]
    lines += [f"pivot table at {pivot.at}: {pivot.how} of {pivot.values} by {pivot.rows}" for pivot in sheet.pivots]
    lines += [f"filter: {column} shows {value}" for column, value in sheet.filters.items()]
    return lines


def _clipped(area: Area) -> Area:
    """The area without the columns beyond the limit."""
    if area.width <= _COLUMNS_SHOWN:
        return area
    return Area(area.first, Position(area.first.column + _COLUMNS_SHOWN - 1, area.last.row))


def _row(book: Book, name: str, area: Area, row: int) -> str:
    shown = (displayed_text(book, name, f"{column_letters(column)}{row}") for column in area.columns)
    return f"{row}: {' | '.join(map(shorten, shown))}"


def shorten(text: str) -> str:
    """The text on one line, cut if long."""
    text = text.replace("\n", "\\n")
    return text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}…"


def format_rows(book: Book, name: str, area: Area, *, page: int) -> str:
    """The values of an area, one line per row, without rows that a filter hides."""
    clipped = _clipped(area)
    rows = visible_rows(book, name, area.rows) if book.sheets[name].filters else area.rows
    shown = paginate(rows, page=page, shown=max(1, CELLS_SHOWN // clipped.width))
    lines = [f"columns {' | '.join(map(column_letters, clipped.columns))}"]
    lines += [_row(book, name, clipped, row) for row in shown.items]
    if shown.note:
        lines.append(f"rows {shown.note}")
    if clipped.width < area.width:
        lines.append(f"columns {clipped.text} of {area.text}; ask for a range with the others")
    if len(rows) < area.height:
        lines.append(f"{area.height - len(rows)} rows are hidden by a filter")
    return "\n".join(lines)


def cell_list(texts: Mapping[str, str], area: Area, *, page: int, empty: str) -> str:
    """The cells in an area, one per line, row by row."""
    positions = ((position_of(address), address) for address in texts)
    cells = sorted((position.row, position.column, address) for position, address in positions if position in area)
    lines = [f"{address}: {shorten(texts[address])}" for _, _, address in cells]
    return format_page(lines, page=page, shown=CELLS_SHOWN // 4, empty=empty)


def format_look(look: CellFormat) -> str:
    """``bold fill FFFF00``"""
    parts = (
        look.is_bold and "bold",
        look.is_italic and "italic",
        look.fill and f"fill {look.fill}",
        look.number and f"number {look.number}",
    )
    return " ".join(part for part in parts if part)
