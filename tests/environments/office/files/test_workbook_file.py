"""Workbooks as .xlsx files."""

from datetime import datetime, time, timedelta
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.environments.office.state.cell import is_formula, normalize_text
from upturn.environments.office.state.workbook import Book, CellFormat, Chart, Pivot, Sheet
from upturn.errors import FileFormatError

openpyxl = pytest.importorskip("openpyxl", reason="the extra files is not installed")
pytest.importorskip("xlsxwriter", reason="the extra files is not installed")

from upturn.environments.office.files.picture import picture_bytes  # noqa: E402
from upturn.environments.office.files.workbook import read_workbook, workbook_bytes  # noqa: E402


def foreign_workbook(cells: dict[str, object], **formats: str) -> bytes:
    """Returns a file like those of other programs, without values of formulas; ``formats`` maps addresses to number
    formats."""
    file = openpyxl.Workbook()
    for address, value in cells.items():
        file.active[address] = value
    for address, code in formats.items():
        file.active[address].number_format = code
    target = BytesIO()
    file.save(target)
    return target.getvalue()


def test_a_book_survives_a_round_trip_and_equal_books_give_equal_bytes(book: Book) -> None:
    written = workbook_bytes(book)
    assert read_workbook(written) == (book, ())
    assert workbook_bytes(book) == written


def test_formulas_are_written_with_their_values(book: Book) -> None:
    written = workbook_bytes(book)
    formulas = openpyxl.load_workbook(BytesIO(written))["Ledger"]
    values = openpyxl.load_workbook(BytesIO(written), data_only=True)["Ledger"]
    assert [formulas[at].value for at in ("C2", "A8")] == ["=ROUND(B2*1.19,2)", '=_xlfn.CONCAT(A2,"CONCAT(",B2)']
    # 40 × 1.19; 40 × 1.19 + 12.5 × 1.19; the rest as texts
    shown = [values[at].value for at in ("C2", "C4", "C6", "B7", "C7", "A8", "B8")]
    assert shown == [47.6, pytest.approx(62.48), "#DIV/0!", "yes", 40, "rentCONCAT(40", "item"]


def test_numbers_dates_and_formats_have_their_types_in_the_file(book: Book) -> None:
    sheet = openpyxl.load_workbook(BytesIO(workbook_bytes(book)))["Ledger"]
    assert [sheet[at].data_type for at in ("B2", "A4", "A5", "B5", "A6")] == ["n", "d", "s", "b", "s"]
    assert sheet["A1"].font.b and sheet["B2"].number_format == "#,##0.00" and sheet.freeze_panes == "A2"
    assert sheet.column_dimensions["A"].width > 14  # rentCONCAT(40 has 13 characters
    filtered = openpyxl.load_workbook(BytesIO(workbook_bytes(book)))["Q3 plan"]
    assert [filtered.row_dimensions[row].hidden for row in (1, 2, 3)] == [False, False, True]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
typed_in = st.one_of(
    texts,
    st.floats(-1e300, 1e300).map(repr),
    st.from_regex(r"'?[-=+#0-9TRUE/.]{1,6}", fullmatch=True),
).map(normalize_text)


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.from_regex(r"[A-Z]{1,2}[1-9][0-9]?", fullmatch=True), typed_in, max_size=30))
def test_any_cell_content_survives_a_round_trip(cells: dict[str, str]) -> None:
    sheet = Sheet({at: text for at, text in cells.items() if text and not is_formula(text)})
    assert read_workbook(workbook_bytes(Book({"s": sheet}))).book.sheets["s"].cells == sheet.cells


CONTROL = "a\x00\x07\x0b\x1f\r\n\ufffe\uffff\ufdd0_\x07_"
ESCAPES = ("_x0007_", "_x0041_x0042_", "_x005F_x0007_", "x005F_", "_xd800_", "box005F_x000d_")


def test_characters_invalid_in_xml_and_texts_that_look_like_escapes_round_trip() -> None:
    cells = {f"A{row}": text for row, text in enumerate(("head", CONTROL, *ESCAPES), start=1)}
    formulas = {"B2": '=CONCAT("\x07_x0007_",A2)', "C1": "\x07", "C2": "1"}
    sheet = Sheet(
        {**cells, **formulas},
        filters={"A": CONTROL},
        pivots=(Pivot("A1:C8", "_x0041_\ufffe\x07", "\x07", "sum", "E1"),),
    )
    written = workbook_bytes(Book({"s": sheet}))
    assert read_workbook(written) == (Book({"s": sheet}), ())
    assert not read_workbook(written).book.sheets["s"].cells["A2"].startswith("'")
    raw = openpyxl.load_workbook(BytesIO(written))["s"]
    assert [raw.row_dimensions[row].hidden for row in range(1, 10)] == [False, False, *[True] * 6, False]
    values = openpyxl.load_workbook(BytesIO(written), data_only=True)["s"]
    # This library leaves escapes as they stand in the file.
    assert values["B2"].value.startswith("_x0007__x005F_x0007_a_x0000__x0007_")


def test_escapes_that_excel_writes_are_read() -> None:
    read = read_workbook(foreign_workbook({"A1": "one_x000D_\ntwo", "A2": "a_x005F_x0041_", "A3": "_x0041_"}))
    assert read.book.sheets["Sheet"].cells == {"A1": "one\r\ntwo", "A2": "a_x0041_", "A3": "A"}


def test_a_chart_over_whole_columns_is_read_as_one_over_the_used_rows() -> None:
    sheet = Sheet({"A1": "x", "A2": "1", "A3": "2"}, charts=(Chart("line", "A1:A1048576"),))
    read = read_workbook(workbook_bytes(Book({"s": sheet}))).book.sheets["s"]
    assert read.charts == (Chart("line", "A1:A3"),)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("=sum( b2:b5 )", "=SUM(B2:B5)"),
        ('=_xlfn.CONCAT(A1,"_xlfn.")', '=CONCAT(A1,"_xlfn.")'),
        ("=VLOOKUP(1,B1:C2,2,FALSE())", "=VLOOKUP(1,B1:C2,2,FALSE)"),
        ("=Sheet!B2", "=B2"),
        ("=TRUE()", "TRUE"),
        (True, "TRUE"),
        (12, "12"),
        (0.1, "0.1"),
        ("007", "'007"),
        ("#N/A", "#N/A"),
    ],
)
def test_foreign_cells_become_texts_of_cells(value: object, text: str) -> None:
    read = read_workbook(foreign_workbook({"A1": value}))
    assert (read.book.sheets["Sheet"].cells, read.notes) == ({"A1": text}, ())


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("General", None),
        ("@", None),
        ("d. mmm yy", "yyyy-mm-dd"),
        ("mmm", "yyyy-mm-dd"),
        ("yyyy-mm-dd h:mm", "yyyy-mm-dd"),
        ("h:mm", "h:mm"),
        ("hh:mm:ss", "h:mm"),
        ("mm:ss", "h:mm"),
        ("h:mm AM/PM", "h:mm AM/PM"),
        ("[$-409]h:mm a/p;@", "h:mm AM/PM"),
        ("[hh]:mm:ss", "[h]:mm"),
        ('#,##0.00 "€"', "#,##0.00"),
        ("[Red]#,##0", "#,##0"),
        ("0.000%", "0.0%"),
        ("0.000", "0.00"),
    ],
)
def test_number_formats_become_the_nearest_supported_one(code: str, number: str | None) -> None:
    formats = read_workbook(foreign_workbook({"A1": 1}, A1=code)).book.sheets["Sheet"].formats
    assert formats == ({} if number is None else {"A1": CellFormat(number=number)})


def test_formulas_that_cannot_be_computed_become_their_values_and_are_reported() -> None:
    import xlsxwriter

    target = BytesIO()
    with xlsxwriter.Workbook(target) as file:
        file.add_worksheet("s").write_formula("A1", "=TODAY()", None, 46083)
    read = read_workbook(target.getvalue())
    assert read.book.sheets["s"].cells == {"A1": "46083"}
    assert read.notes == ("1 formulas became the values they had, since they use what this office has not",)
    unsaved = read_workbook(foreign_workbook({"A1": "=TODAY()"}))
    assert unsaved.book.sheets["Sheet"].cells == {"A1": "=TODAY()"}
    assert unsaved.notes == (
        "1 formulas show #NAME?: they use what this office has not, and the file has no values",
    )


@pytest.mark.parametrize(
    ("book_", "reason"),
    [
        (Book({}), "without sheets"),
        (Book({"s": Sheet({"A1": "a"}, charts=(Chart("bar", "A1:B2", "a\x01b"),))}), "cannot hold the character"),
        (Book({"s": Sheet({"A1": "x" * 32_768})}), "at most 32767 characters"),
        (Book({"a": Sheet({}), "A": Sheet({})}), "cannot be written"),
    ],
)
def test_unsupported_content_is_refused(book_: Book, reason: str) -> None:
    with pytest.raises(FileFormatError, match=reason):
        workbook_bytes(book_)


def test_times_stay_times_and_the_file_gets_them_back() -> None:
    data = foreign_workbook(
        {
            **{"A1": time(9, 30), "A2": time(17, 0), "A3": "=A2-A1", "A4": timedelta(hours=30), "A5": 1.25},
            **{"A6": datetime(2026, 3, 2, 9, 30), "A7": datetime(2026, 3, 2)},
        },
        **{"A1": "h:mm", "A2": "h:mm AM/PM", "A3": "h:mm", "A4": "[h]:mm", "A5": "h:mm"},
    )
    read = read_workbook(data)
    sheet = read.book.sheets["Sheet"]
    # 9.5 / 24, 17 / 24, 30 / 24 and 30 / 24 days
    assert [float(sheet.cells[f"A{row}"]) for row in (1, 2, 4, 5)] == [
        pytest.approx(value, abs=1e-14) for value in (9.5 / 24, 17 / 24, 1.25, 1.25)
    ]
    assert (sheet.cells["A3"], sheet.cells["A6"], sheet.cells["A7"]) == ("=A2-A1", "2026-03-02 09:30", "2026-03-02")
    assert [sheet.formats[f"A{row}"].number for row in range(1, 6)] == [
        *("h:mm", "h:mm AM/PM", "h:mm", "[h]:mm", "h:mm")
    ]
    assert read.notes == (
        "4 times are numbers of days (0.5 is noon) with the format h:mm, h:mm AM/PM or [h]:mm",
        "1 dates with a time of day became texts such as 2026-03-02 09:30",
    )
    again = openpyxl.load_workbook(BytesIO(workbook_bytes(read.book)), data_only=True)["Sheet"]
    assert [again[f"A{row}"].value for row in (1, 2, 3, 4)] == [
        *(time(9, 30), time(17, 0), time(7, 30), timedelta(hours=30))
    ]
    assert read_workbook(workbook_bytes(read.book)).book == read.book


def test_what_a_book_cannot_keep_is_counted() -> None:
    file = openpyxl.Workbook()
    sheet = file.active
    sheet["A1"], sheet["A4"] = "over six cells", "alone"
    sheet.merge_cells("A1:C2")
    sheet.merge_cells("E1:E9")
    sheet.add_image(openpyxl.drawing.image.Image(BytesIO(picture_bytes("the team", "PNG"))), "G1")
    chart = openpyxl.chart.RadarChart()
    chart.add_data(openpyxl.chart.Reference(sheet, range_string="Sheet!A1:A4"))
    sheet.add_chart(chart, "G9")
    sheet.conditional_formatting.add("A1:A9", openpyxl.formatting.rule.ColorScaleRule("min", None, "FF0000", "max"))
    target = BytesIO()
    file.save(target)
    read = read_workbook(target.getvalue())
    assert read.book.sheets["Sheet"].cells == {"A1": "over six cells", "A4": "alone"}
    assert read.notes == (
        "2 merged areas were separated: the first cell has the value, the others are empty",
        "1 pictures were left out",
        "1 charts were left out, since this office has no charts of their kind",
        "1 conditional formats were left out",
    )
