"""Workbooks as .xlsx files: cells, formulas with their values, formats, filters, frozen rows, charts, pivot tables.

Cells are read in the form that Excel operations write: 007 as 7, ``=sum(b2)`` as ``=SUM(B2)``, and ``=#N/A`` as
``#N/A``. A pivot table is stored as its cells and a note on the first one. Foreign files: dates become texts
(2026-03-02), times numbers of days with a format of times, unsupported formulas their saved values, number formats
the nearest supported one, merged cells their first one. Not read: theme colours, names, conditional formats,
pictures, real pivot tables (their cells are). The notes count what changed or was left out.
"""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

from upturn.environments.office.apps import visible_rows
from upturn.environments.office.files.chart import ChartPosition, charts_of, put_chart
from upturn.environments.office.files.escape import escape_part, mark, mark_part, unmark
from upturn.environments.office.files.package import (
    check_package,
    check_text,
    count_matches,
    parse_errors,
    repack,
    require_extra,
)
from upturn.environments.office.files.pivot_note import pivot_notes, read_pivots
from upturn.environments.office.formulas import (
    FormulaError,
    Literal,
    Reference,
    displayed_text,
    format_formula,
    map_references,
    parse,
    value_of,
)
from upturn.environments.office.state import (
    Area,
    Book,
    CellError,
    CellFormat,
    Position,
    Sheet,
    Value,
    cell_text,
    column_letters,
    column_number,
    display_text,
    is_formula,
    parse_value,
    position_of,
)
from upturn.errors import FileFormatError, error_text

DATE = "yyyy-mm-dd"
_TIME, _TIME_OF_12, _DURATION = "h:mm", "h:mm AM/PM", "[h]:mm"
_TIMES = frozenset({_TIME, _TIME_OF_12, _DURATION})
"""Formats of cells whose value is a number of days."""
_HALF_DAY = re.compile(r"am/pm|a/p", re.IGNORECASE)
_PICTURE = re.compile(rb"<(?:\w+:)?pic[\s>]")
_NEWER = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|\b(CONCAT|XLOOKUP)\(""")
"""Functions with a prefix in files, outside of texts."""
_PREFIX = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|_xl(?:fn|ws|udf)\.|\b(TRUE|FALSE)\(\)""")
"""Notations of other programs that the grammar does not support."""
_FIRST_DATE = date(1900, 3, 1)
"""Before it, Excel's calendar has a nonexistent day."""
_WIDEST, _NARROWEST = 60, 9
"""Column widths in characters."""
_LONGEST = 32_767
"""Limit on the characters of a cell in a file."""
_QUOTED_NUMBER_PARTS = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')


_REPLACED = "formulas became the values they had, since they use what this office has not"
_UNREAD = "formulas show #NAME?: they use what this office has not, and the file has no values"
_FILTERS = "filters were left out, since they are for several values or conditions"
_TIMES_OF_CELLS = f"times are numbers of days (0.5 is noon) with the format {_TIME}, {_TIME_OF_12} or {_DURATION}"
_MOMENTS = "dates with a time of day became texts such as 2026-03-02 09:30"
_MERGED = "merged areas were separated: the first cell has the value, the others are empty"
_PICTURES = "pictures were left out"
_CHARTS = "charts were left out, since this office has no charts of their kind"
_CONDITIONS = "conditional formats were left out"
_DIFFERENCES = (
    *(_REPLACED, _UNREAD, _FILTERS, _TIMES_OF_CELLS, _MOMENTS),
    *(_MERGED, _PICTURES, _CHARTS, _CONDITIONS),
)
"""What can differ from a file, in the order of the notes."""


class ReadBook(NamedTuple):
    """The content read from a file."""

    book: Book
    notes: tuple[str, ...]
    """Descriptions of differences from the file."""


def workbook_bytes(book: Book) -> bytes:
    """The book as an .xlsx file, equal for equal books; raises FileFormatError for content that it cannot hold."""
    with require_extra(".xlsx files"):
        from xlsxwriter import Workbook
        from xlsxwriter.exceptions import XlsxWriterException
    if not book.sheets:
        raise FileFormatError("a workbook without sheets cannot be written; add one")
    target = BytesIO()
    try:
        with Workbook(target, {"in_memory": True}) as file:
            file.set_properties({"created": datetime(2026, 1, 1)})
            writer = _Writer(file, book)
            for name in book.sheets:
                writer.put_sheet(name)
    except XlsxWriterException as exc:
        raise FileFormatError(f"the workbook cannot be written: {error_text(exc, longest=200)}") from exc
    return repack(target.getvalue(), escape_part)


class _Writer:
    """Fills one file; single use."""

    def __init__(self, file: Any, book: Book) -> None:  # Any: the library has no types
        self._file = file
        self._book = book
        self._looks: dict[tuple[CellFormat, bool], Any] = {}

    def put_sheet(self, name: str) -> None:
        """Writes the next sheet."""
        sheet = self._book.sheets[name]
        check_text(name, *(chart.title for chart in sheet.charts))
        target = self._file.add_worksheet(name)
        for address in dict.fromkeys((*sheet.cells, *sheet.formats)):
            self._put_cell(target, name, address)
        for column, width in _widths(self._book, name).items():
            target.set_column(column - 1, column - 1, width)
        target.set_paper(9)  # A4
        target.set_landscape()
        target.fit_to_pages(1, 0)
        if sheet.frozen_rows:
            target.freeze_panes(sheet.frozen_rows, 0)
        self._put_filters(target, name)
        for address, note in pivot_notes(sheet.pivots).items():
            column, row = position_of(address)
            target.write_comment(row - 1, column - 1, note, {"author": "", "x_scale": 2, "y_scale": 1.5})
        for number, chart in enumerate(sheet.charts):
            put_chart(self._file, target, chart, at=ChartPosition(name, sheet, number))

    def _put_cell(self, target: Any, name: str, address: str) -> None:
        sheet = self._book.sheets[name]
        text, format_ = sheet.cells.get(address, ""), sheet.formats.get(address, CellFormat())
        column, row = position_of(address)
        at = (row - 1, column - 1)
        value = value_of(self._book, name, address)
        look = self._look(format_, is_quoted=text.startswith("'"))
        if not text:
            target.write_blank(*at, None, look)
        elif is_formula(text):
            formula = _NEWER.sub(lambda match: match[1] or f"_xlfn.{match[2]}(", text)
            target.write_formula(*at, mark(formula), look, _cached(value))
        elif isinstance(value, CellError):
            target.write_formula(*at, f"={value.value}", look, value.value)
        elif isinstance(value, bool):
            target.write_boolean(*at, value, look)
        elif isinstance(value, float):
            target.write_number(*at, value, look)
        else:
            self._put_text(target, at, value or "", look, is_date=format_.number == DATE)

    def _put_text(self, target: Any, at: tuple[int, int], text: str, look: Any, *, is_date: bool) -> None:
        day = _day(text) if is_date else None
        if day is not None:
            target.write_datetime(*at, day, look)
        elif target.write_string(*at, mark(text), look):
            raise FileFormatError(f"a cell of a file has at most {_LONGEST} characters, got {len(text)}")

    def _look(self, format_: CellFormat, *, is_quoted: bool) -> Any:
        """The library's format; None = the default."""
        if not is_quoted and format_ == CellFormat():
            return None
        key = (format_, is_quoted)
        if key not in self._looks:
            wanted = {
                "bold": format_.is_bold,
                "italic": format_.is_italic,
                "bg_color": format_.fill and f"#{format_.fill}",
                "num_format": format_.number,
                "quote_prefix": is_quoted,
            }
            self._looks[key] = self._file.add_format({name: value for name, value in wanted.items() if value})
        return self._looks[key]

    def _put_filters(self, target: Any, name: str) -> None:
        sheet = self._book.sheets[name]
        if not sheet.filters:
            return
        used = sheet.used.area or Area(Position(1, 1), Position(1, 1))
        columns = {letters: column_number(letters) for letters in sheet.filters}
        left, right = min(*columns.values(), used.first.column), max(*columns.values(), used.last.column)
        target.autofilter(used.first.row - 1, left - 1, used.last.row - 1, right - 1)
        for letters, wanted in sheet.filters.items():
            target.filter_column_list(columns[letters] - 1, [mark(wanted)])
        filled = sorted({position_of(address).row for address in sheet.cells})
        visible = frozenset(visible_rows(self._book, name, filled))
        for row in filled:
            if row not in visible:
                target.set_row(row - 1, None, None, {"hidden": True})


def _cached(value: Value) -> float | str | bool:
    if isinstance(value, CellError):
        return display_text(value)
    return mark(value) if isinstance(value, str) else value if value is not None else 0.0


def _day(text: str) -> datetime | None:
    """The date; None = the file format cannot hold it as a date."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return datetime.combine(day, time()) if day.isoformat() == text and day >= _FIRST_DATE else None


def _widths(book: Book, name: str) -> dict[int, int]:
    """Column widths in characters that fit nearly all content."""
    widths: dict[int, int] = {}
    for address in book.sheets[name].cells:
        column = position_of(address).column
        longest = max((len(line) for line in displayed_text(book, name, address).split("\n")), default=0)
        widths[column] = max(widths.get(column, _NARROWEST), min(longest + 3, _WIDEST))
    return widths


def read_workbook(data: bytes) -> ReadBook:
    """The book in an .xlsx file; raises FileFormatError for other, damaged and too large files."""
    with require_extra(".xlsx files"):
        from openpyxl import load_workbook
    check_package(data, "workbook")
    with parse_errors("workbook"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unsupported parts, which the module docstring lists
        data = repack(data, mark_part)
        file = load_workbook(BytesIO(data), keep_links=False)
        reader = _Reader(file, lambda: load_workbook(BytesIO(data), keep_links=False, data_only=True))
        book = Book({sheet.title: reader.sheet(sheet) for sheet in file.worksheets})
        if not book.sheets:
            raise FileFormatError("the workbook has no sheets")
        book = reader.with_charts(book)
        return ReadBook(book, reader.notes(pictures=count_matches(data, _PICTURE)))


class _Reader:
    """Reads one file; single use."""

    def __init__(self, file: Any, load_values: Callable[[], Any]) -> None:  # the library has no types
        self._file = file
        self._load_values = load_values
        self._values: Any = None
        """The file with values instead of formulas; None = not loaded yet."""
        self._counts: Counter[str] = Counter()
        """By the explanation of what differs from the file."""

    def sheet(self, source: Any) -> Sheet:
        """The sheet without charts."""
        cells: dict[str, str] = {}
        formats: dict[str, CellFormat] = {}
        notes: list[tuple[str, str]] = []
        for (row, column), cell in sorted(source._cells.items()):  # existing cells only
            address = Position(column, row).address
            if text := self._text(source.title, address, cell):
                cells[address] = text
            if cell.has_style and (look := _format_of(cell)) != CellFormat():
                formats[address] = look
            if cell.comment is not None:
                notes.append((address, unmark(cell.comment.text)))
        self._counts[_MERGED] += len(source.merged_cells.ranges)
        self._counts[_CONDITIONS] += sum(1 for _ in source.conditional_formatting)
        frozen = source.freeze_panes
        return Sheet(
            cells,
            formats,
            pivots=read_pivots(notes),
            filters=dict(self._filters(source.auto_filter)),
            frozen_rows=position_of(frozen).row - 1 if frozen else 0,
        )

    def with_charts(self, book: Book) -> Book:
        """The book with all charts, each on the sheet with its cells."""
        for source in self._file.worksheets:
            charts = list(charts_of(source))
            self._counts[_CHARTS] += len(source._charts) - len(charts)
            for name, chart in charts:
                if name in book.sheets:
                    sheet = book.sheets[name]
                    book = book.with_sheet(name, replace(sheet, charts=(*sheet.charts, chart)))
        return book

    def notes(self, *, pictures: int) -> tuple[str, ...]:
        """Descriptions of differences from the file; ``pictures``: their number in the file."""
        self._counts[_PICTURES] = pictures
        return tuple(f"{self._counts[words]} {words}" for words in _DIFFERENCES if self._counts[words])

    def _text(self, name: str, address: str, cell: Any) -> str:
        value = cell.value
        if cell.data_type != "f":
            return self._value_text(cell)
        formula = value if isinstance(value, str) else getattr(value, "text", None) or ""
        formula = unmark(formula if formula.startswith("=") else f"={formula}")
        if formula in ("=TRUE()", "=FALSE()"):  # as LibreOffice writes them
            return formula[1:-2]
        read = _formula(_PREFIX.sub(lambda match: match[1] or match[2] or "", formula), name)
        if read is not None:
            return read
        if self._values is None:
            self._values = self._load_values()
        saved = self._values[name][address]
        if saved.value is None:
            self._counts[_UNREAD] += 1
            return formula
        self._counts[_REPLACED] += 1
        return self._value_text(saved)

    def _value_text(self, cell: Any) -> str:
        """The text of a cell of the library that has a value, or none."""
        from openpyxl.utils.datetime import to_excel

        value = cell.value
        if isinstance(value, datetime) and _number_format(cell.number_format) not in _TIMES:
            self._counts[_MOMENTS] += value.time() != time()
        elif isinstance(value, datetime | time | timedelta):  # the library makes a datetime of 24 hours and more
            self._counts[_TIMES_OF_CELLS] += 1
            value = float(to_excel(value, epoch=self._file.epoch))
        return "" if value is None else _cell_text(value, is_error=cell.data_type == "e")

    def _filters(self, source: Any) -> Iterator[tuple[str, str]]:
        if not source.ref:
            return
        first = position_of(source.ref.partition(":")[0]).column
        for column in source.filterColumn:
            wanted = [] if column.filters is None else list(column.filters.filter)
            if column.customFilters is not None:
                wanted = [
                    condition.val
                    for condition in column.customFilters.customFilter
                    if condition.operator in (None, "equal")
                ]
            if len(wanted) == 1:
                yield column_letters(first + column.colId), unmark(str(wanted[0]))
            else:
                self._counts[_FILTERS] += 1


def _formula(text: str, name: str) -> str | None:
    """The formula in the form that Excel operations write; None if it is not supported."""

    def without_own_sheet(reference: Reference) -> Reference:
        if reference.sheet != name:
            return reference
        return Reference(reference.first, reference.last, None, reference.has_all_rows)

    try:
        tree = parse(text).tree
    except FormulaError:
        return None
    if isinstance(tree, Literal) and isinstance(tree.value, CellError):
        return tree.value.value
    return format_formula(map_references(tree, without_own_sheet))


def _cell_text(value: object, *, is_error: bool) -> str:
    """The cell text for this value."""
    if isinstance(value, bool):
        return cell_text(value)
    if isinstance(value, int | float):
        return cell_text(float(value))
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "minutes")
    if isinstance(value, date):
        return value.isoformat()
    text = unmark(str(value))
    return text if is_error and isinstance(parse_value(text), CellError) else cell_text(text) if text else "'"


def _format_of(cell: Any) -> CellFormat:
    fill = None
    if cell.fill.fill_type == "solid" and cell.fill.fgColor.type == "rgb":
        fill = str(cell.fill.fgColor.rgb)[-6:].upper()
    return CellFormat(cell.font.b or None, cell.font.i or None, fill, _number_format(cell.number_format))


@lru_cache(maxsize=512)
def _number_format(code: str) -> str | None:
    """The nearest supported number format; None = none is near."""
    from openpyxl.styles.numbers import is_date_format, is_timedelta_format

    plain = _QUOTED_NUMBER_PARTS.sub("", code.partition(";")[0])
    if code == "General" or plain in ("General", "@", ""):
        return None
    if is_timedelta_format(code):
        return _DURATION
    if is_date_format(code):
        return _date_format(plain)
    decimals = plain.partition(".")[2].count("0")
    if "%" in plain:
        return "0.0%" if decimals else "0%"
    if "," in plain:
        return "#,##0.00" if decimals else "#,##0"
    if "0" not in plain and "#" not in plain:
        return None
    return "0.00" if decimals else "0"


def _date_format(plain: str) -> str:
    """The format of dates or of times; ``plain``: a code without quoted parts and brackets."""
    code, halves = _HALF_DAY.subn("", plain.lower())
    if "y" in code or "d" in code or not set("hs") & set(code):  # m is a month without hours and seconds
        return DATE
    return _TIME_OF_12 if halves else _TIME
