"""Workbooks: observations, changes and refusals."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.environments.office.apps import Effect, apply
from upturn.environments.office.apps.excel import APP
from upturn.environments.office.formulas.calculation import find_cycle
from upturn.environments.office.state import OperationError, Persona, Workspace, changes
from upturn.environments.office.state.diff import changed_facts, facts_of
from upturn.environments.office.state.file import File, PlainText, Version
from upturn.environments.office.state.person import Group
from upturn.environments.office.state.workbook import Book, Chart, Pivot, Sheet
from upturn.records import Action

Do = Callable[..., Effect]
Desk = Callable[..., Workspace]

SALES = {
    "A1": "region",
    "B1": "amount",
    "C1": "share",
    "A2": "south",
    "B2": "8",
    "C2": "=B2/SUM(B$2:B$4)",
    "A3": "north",
    "B3": "20",
    "C3": "=B3/SUM(B$2:B$4)",
    "A4": "south",
    "B4": "12",
    "C4": "=B4/SUM(B$2:B$4)",
}
FILES = (
    File(
        "f1",
        "/sales/q3.xlsx",
        Book({"data": Sheet(SALES), "notes": Sheet({})}),
        "ann.lee",
        "bob.ray",
        "2026-03-01 10:00",
    ),
    File(
        "f2",
        "/shared/long.xlsx",
        Book({"log": Sheet({"A1": "n", **{f"A{row}": str(row) for row in range(2, 302)}})}),
        "bob.ray",
        "bob.ray",
        "2026-02-01 10:00",
        rights={"sales": "read"},
    ),
    File(
        "f3", "/people/cid.moe/own.xlsx", Book({"x": Sheet({"A1": "1"})}), "cid.moe", "cid.moe", "2026-02-01 10:00"
    ),
    File(
        "f4",
        "/hr/pay.xlsx",
        Book({"pay": Sheet({"A1": "9"})}),
        "ann.lee",
        "ann.lee",
        "2026-02-01 10:00",
        label="confidential",
    ),
    File("f5", "/notes.txt", PlainText("hello"), "ann.lee", "ann.lee", "2026-02-01 10:00"),
    File("f6", "/old.xlsx", Book({"x": Sheet({})}), "ann.lee", "ann.lee", "2026-02-01 10:00", is_deleted=True),
)


@pytest.fixture
def books(desk: Desk) -> Desk:
    """Returns Ann's workspace with three workbooks: hers, one that her group may read, and another person's."""

    def office(persona: Persona | None = None) -> Workspace:
        group = Group("sales", "Sales", ("ann.lee", "bob.ray"))
        return desk(persona).with_items(group, *FILES)

    return office


def cells_of(effect: Effect, name: str = "data") -> Mapping[str, str]:
    """Returns the cells of a sheet of f1."""
    content = effect.workspace.files["f1"].content
    assert isinstance(content, Book)
    return content.sheets[name].cells


def test_a_workbook_opens_as_schema_and_sample(books: Desk, do: Do) -> None:
    assert do(books(), "excel.open id=f1").text == (
        "/sales/q3.xlsx\n"
        "data: A1:C4, 4 rows\n"
        "1: region | amount | share\n"
        "2: south | 8 | 0.2\n"
        "3: north | 20 | 0.5\n"
        "4: south | 12 | 0.3\n"
        "notes: empty"
    )
    assert (
        do(books(), "excel.open id=f2").text == "/shared/long.xlsx\nlog: A1:A301, 301 rows\n1: n\n2: 2\n3: 3\n4: 4"
    )


def test_a_range_is_read_as_values_formulas_or_formats(books: Desk, do: Do) -> None:
    read = "excel.read_range id=f1; sheet=data"
    assert do(books(), f"{read}; range=A2:C3").text == "columns A | B | C\n2: south | 8 | 0.2\n3: north | 20 | 0.5"
    assert do(books(), f"{read}; range=b3").text == "20"
    assert do(books(), f"{read}; range=Z9").text == "empty"
    assert do(books(), f"{read}; range=E:G").text == "empty"
    assert do(books(), f"{read}; range=C1:C2; show=formulas").text == "C2: =B2/SUM(B$2:B$4)"
    assert do(books(), f"{read}; show=formats").text == "no formats"
    assert do(books(), "excel.read_range id=f1; sheet=NOTES").text == "empty"


def test_long_sheets_are_read_in_pages_of_two_hundred_cells(books: Desk, do: Do) -> None:
    first = do(books(), "excel.read_range id=f2").text.split("\n")
    assert (len(first), first[1], first[-1]) == (202, "1: n", "rows 1-200 of 301; page=2 shows more")
    last = do(books(), "excel.read_range id=f2; page=2").text.split("\n")
    assert (last[1], last[-1]) == ("201: 201", "rows 201-301 of 301")
    wide = do(
        books(),
        "excel.write_range id=f1; sheet=notes; at=A1; rows=1",
        "excel.write_range id=f1; sheet=notes; at=XFD1048576; rows=2",
    )
    text = do(wide.workspace, "excel.read_range id=f1; sheet=notes").text.split("\n")
    assert (len(text), text[-1]) == (7, "columns A1:AX1048576 of A1:XFD1048576; ask for a range with the others")


def test_cells_are_found_by_what_they_show(books: Desk, do: Do) -> None:
    assert do(books(), "excel.find id=f1; text=SOUTH").text == "data!A2: south\ndata!A4: south"
    assert do(books(), "excel.find id=f1; text=0.5").text == "data!C3: 0.5"
    assert do(books(), "excel.find id=f1; text=out; is_whole=true").text == "no such cells"
    assert do(books(), "excel.find id=f1; text=south; sheet=notes").text == "no such cells"


def test_writing_a_block_keeps_the_previous_values(books: Desk, do: Do) -> None:
    effect = do(
        books(),
        'excel.write_range id=f1; sheet=data; at=a5; rows=[["east",4.0,"\\= sum( b2:b5 )"],["x y",null,true]]',
    )

    assert effect.text == "wrote A5:C6; C5 shows 44"
    assert changes(books(), effect.workspace) == {
        "files/f1/sheets/data/cells/A5": "east",
        "files/f1/sheets/data/cells/B5": "4",
        "files/f1/sheets/data/cells/C5": "=SUM(B2:B5)",
        "files/f1/sheets/data/cells/A6": "x y",
        "files/f1/sheets/data/cells/C6": "TRUE",
    }
    file = effect.workspace.files["f1"]
    assert (file.by, file.at) == ("ann.lee", "2026-03-02 09:00")
    assert file.versions == (Version(FILES[0].content, "bob.ray", "2026-03-01 10:00"),)


@pytest.mark.parametrize(
    ("rows", "written"),
    [
        ("007", {"D1": "7"}),
        ("a, 'b\\nc,2", {"D1": "a", "E1": "b", "D2": "c", "E2": "2"}),
        ('"x, y",1', {"D1": "x, y", "E1": "1"}),
        ("a\t1,5\nb\t2", {"D1": "a", "E1": "1,5", "D2": "b", "E2": "2"}),
        ("'\\=no formula", {"D1": "'=no formula"}),
        ("[draft]", {"D1": "[draft]"}),
        ('["a", 2]', {"D1": "a", "E1": "2"}),
        ("ünïcode ✓", {"D1": "ünïcode ✓"}),
    ],
)
def test_rows_may_be_lines_or_lists(books: Desk, do: Do, rows: str, written: dict[str, str]) -> None:
    effect = do(books(), f"excel.write_range id=f1; sheet=data; at=D1; rows={rows}")
    assert {at: text for at, text in cells_of(effect).items() if at not in SALES} == written


def test_an_empty_value_empties_a_cell_and_an_unchanged_value_adds_no_version(books: Desk, do: Do) -> None:
    emptied = do(books(), 'excel.write_range id=f1; sheet=data; at=A4; rows=[["", "12"]]')
    assert changes(books(), emptied.workspace) == {"files/f1/sheets/data/cells/A4": None}
    same = do(books(), "excel.write_range id=f1; sheet=data; at=B4; rows=12.0")
    assert same.workspace.files["f1"].versions == ()


def test_a_formula_is_filled_in_as_excel_fills_down(books: Desk, do: Do) -> None:
    effect = do(books(), "excel.insert_formula id=f1; sheet=data; range=D2:D4; formula=\\=B2*$B$3")
    assert effect.text == "wrote D2:D4; D2 shows 160; D3 shows 400; D4 shows 240"
    assert [cells_of(effect)[f"D{row}"] for row in (2, 3, 4)] == ["=B2*$B$3", "=B3*$B$3", "=B4*$B$3"]
    other = do(effect.workspace, "excel.insert_formula id=f1; sheet=notes; range=A1; formula=SUM(DATA!B2:B4)")
    assert cells_of(other, "notes") == {"A1": "=SUM(data!B2:B4)"}
    base = do(books(), "excel.insert_formula id=f1; sheet=data; range=D1; formula=data!B2")
    assert cells_of(base)["D1"] == "=B2"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("range=B2; formula=C2+1", "that would be a ring: B2 → C2 → B2"),
        ("range=D1; formula=SUM(A1:D1)", "that would be a ring: D1 → D1"),
    ],
)
def test_a_circular_formula_is_refused_with_its_cycle(books: Desk, do: Do, call: str, message: str) -> None:
    with pytest.raises(OperationError) as refused:
        do(books(), f"excel.insert_formula id=f1; sheet=data; {call}")
    assert (refused.value.code, str(refused.value)) == ("bad_formula", message)


def test_a_cycle_across_sheets_names_the_sheets(books: Desk, do: Do) -> None:
    start = do(books(), "excel.insert_formula id=f1; sheet=notes; range=A1; formula=data!Z1").workspace
    with pytest.raises(OperationError, match=r"ring: Z1 → notes!A1 → Z1"):
        do(start, "excel.insert_formula id=f1; sheet=data; range=Z1; formula=notes!A1*2")


def test_rows_are_sorted_with_their_formulas_and_formats(books: Desk, do: Do) -> None:
    effect = do(
        books(),
        "excel.format id=f1; sheet=data; range=B3; bold=true",
        "excel.sort id=f1; sheet=data; by=Amount; order=desc",
    )
    assert effect.text == "sorted A2:C4 by Amount, desc"
    assert [cells_of(effect)[f"A{row}"] + cells_of(effect)[f"C{row}"] for row in (2, 3, 4)] == [
        "north=B2/SUM(B$2:B$4)",
        "south=B3/SUM(B$2:B$4)",
        "south=B4/SUM(B$2:B$4)",
    ]
    result = changes(books(), effect.workspace)
    assert result["files/f1/sheets/data/formats/B2"] == {"is_bold": True}
    assert result["files/f1/sheets/data/cells/B2"] == "20"
    assert "files/f1/sheets/data/cells/C2" not in result


def test_sorting_puts_numbers_before_texts_and_empty_cells_last_either_way(books: Desk, do: Do) -> None:
    sort = "excel.sort id=f1; sheet=notes; by=A; has_header=false"
    filled = do(
        books(),
        'excel.write_range id=f1; sheet=notes; at=A1; rows=[["b",1],[10,2],["",3],[true,4],["A",5],[2,6]]',
    ).workspace
    ascending, descending = do(filled, sort), do(filled, f"{sort}; order=desc")
    order = [[cells_of(item, "notes").get(f"B{row}") for row in range(1, 7)] for item in (ascending, descending)]
    assert order == [["6", "2", "5", "1", "4", "3"], ["4", "1", "5", "2", "6", "3"]]


def test_a_filter_hides_rows_until_it_is_cleared(books: Desk, do: Do) -> None:
    effect = do(books(), "excel.filter id=f1; sheet=data; column=region; value=SOUTH")
    assert effect.text == "2 of 3 rows are shown"
    assert changes(books(), effect.workspace) == {"files/f1/sheets/data/filters/A": "south"}
    assert do(effect.workspace, "excel.read_range id=f1; sheet=data; range=A1:B9").text == (
        "columns A | B\n1: region | amount\n2: south | 8\n4: south | 12\n1 rows are hidden by a filter"
    )
    off = do(effect.workspace, "excel.filter id=f1; sheet=data; column=A")
    assert (off.text, changes(books(), off.workspace)) == ("3 of 3 rows are shown", {})


def test_a_pivot_table_is_computed_into_cells(books: Desk, do: Do) -> None:
    effect = do(books(), "excel.pivot_table id=f1; sheet=data; rows=region; values=amount; at=A1; to_sheet=notes")
    assert effect.text == "pivot table in A1:B4; total 40"
    assert cells_of(effect, "notes") == {
        "A1": "region",
        "B1": "sum of amount",
        "A2": "north",
        "B2": "20",
        "A3": "south",
        "B3": "20",
        "A4": "Grand Total",
        "B4": "40",
    }
    content = effect.workspace.files["f1"].content
    assert isinstance(content, Book)
    assert content.sheets["notes"].pivots == (Pivot("data!A1:C4", "region", "amount", "sum", "A1"),)


@pytest.mark.parametrize(
    ("how", "numbers"),
    [
        ("average", ["20", "10", "13.3333333333333"]),
        ("count", ["1", "2", "3"]),
        ("max", ["20", "12", "20"]),
        ("min", ["20", "8", "8"]),
    ],
)
def test_a_pivot_table_sums_up_in_five_ways(books: Desk, do: Do, how: str, numbers: list[str]) -> None:
    effect = do(books(), f"excel.pivot_table id=f1; sheet=data; rows=A; values=B; how={how}; at=E1")
    assert [cells_of(effect)[f"F{row}"] for row in (2, 3, 4)] == numbers


def test_a_chart_shows_a_range(books: Desk, do: Do) -> None:
    effect = do(books(), "excel.create_chart id=f1; sheet=data; kind=bar; range=a1:b4; title=sales")
    assert effect.text == "bar chart of A1:B4 on data"
    content = effect.workspace.files["f1"].content
    assert isinstance(content, Book)
    assert content.sheets["data"].charts == (Chart("bar", "A1:B4", "sales"),)
    assert changes(books(), effect.workspace) == {
        "files/f1/sheets/data/charts": [{"kind": "bar", "range": "A1:B4", "title": "sales"}]
    }


def test_formats_are_stored_by_cell_and_cleared_completely(books: Desk, do: Do) -> None:
    call = "excel.format id=f1; sheet=data; range=A1:B1"
    effect = do(books(), f"{call}; bold=true; fill=yellow; number=0.00", f"{call}; italic=true; fill=none")
    path = "files/f1/sheets/data/formats/"
    look = {"is_bold": True, "is_italic": True, "number": "0.00"}
    assert changes(books(), effect.workspace) == {f"{path}A1": look, f"{path}B1": look}
    assert do(effect.workspace, "excel.read_range id=f1; sheet=data; show=formats").text == (
        "A1: bold italic number 0.00\nB1: bold italic number 0.00"
    )
    undone = do(effect.workspace, f"{call}; bold=false; italic=false; number=general")
    assert changes(books(), undone.workspace) == {}


def test_a_sheet_is_added_after_the_others(books: Desk, do: Do) -> None:
    effect = do(books(), "excel.add_sheet id=f1; name=Q4 plan")
    assert changes(books(), effect.workspace) == {
        "files/f1/sheets/Q4 plan": True,
        "files/f1/sheets/Q4 plan/charts": [],
        "files/f1/sheets/Q4 plan/pivots": [],
        "files/f1/sheets/Q4 plan/frozen_rows": 0,
    }


MESSY = (
    'excel.write_range id=f1; sheet=notes; at=A1; rows=[["name","n","m"],'
    '["ann","\'5","1"],["ANN","\'5",1],["b","",""],["","",""],["c","$1,200","\\= 1+1"]]'
)


@pytest.mark.parametrize(
    ("macro", "changed"),
    [
        ("text_to_numbers", {"B2": "5", "B3": "5", "B6": "1200"}),
        ("fill_blanks_with_zero", {"B4": "0", "C4": "0", "A5": "0", "B5": "0", "C5": "0"}),
        ("fill_down", {"B4": "'5", "C4": "1", "A5": "b", "B5": "'5", "C5": "1"}),
        ("remove_empty_rows", {"A5": "c", "B5": "$1,200", "C5": "=1+1", "A6": None, "B6": None, "C6": None}),
        (
            "remove_duplicates",
            {
                **{"A3": "b", "B3": None, "C3": None, "A4": None},
                **{"A5": "c", "B5": "$1,200", "C5": "=1+1", "A6": None, "B6": None, "C6": None},
            },
        ),
        ("total_row", {"A7": "Total", "C7": "=SUM(C2:C6)"}),
        ("values_only", {"C6": "2"}),
    ],
)
def test_macros_have_the_effect_of_their_names(
    books: Desk, do: Do, macro: str, changed: dict[str, str | None]
) -> None:
    messy = do(books(), MESSY).workspace
    effect = do(messy, f"excel.run_macro id=f1; sheet=notes; name={macro}")
    prefix = "files/f1/sheets/notes/cells/"
    assert changes(messy, effect.workspace) == {f"{prefix}{at}": text for at, text in changed.items()}
    assert effect.text.endswith(f": {len(changed)} cells changed")


def test_macros_trim_freeze_and_embolden(books: Desk, do: Do) -> None:
    untidy = books().with_items(
        File(
            "f9",
            "/u.xlsx",
            Book({"u": Sheet({"A1": " a  b", "A2": "x "})}),
            "ann.lee",
            "ann.lee",
            "2026-03-01 10:00",
        )
    )
    effect = do(
        untidy, *(f"excel.run_macro id=f9; name={name}" for name in ("trim_text", "freeze_header", "bold_header"))
    )
    assert changes(untidy, effect.workspace) == {
        "files/f9/sheets/u/cells/A1": "a b",
        "files/f9/sheets/u/cells/A2": "x",
        "files/f9/sheets/u/formats/A1": {"is_bold": True},
        "files/f9/sheets/u/frozen_rows": 1,
    }


def test_every_access_to_sensitive_content_costs(books: Desk, do: Do) -> None:
    for call in (
        "open id=f4",
        "read_range id=f4",
        "find id=f4; text=9",
        "write_range id=f4; at=B1; rows=1",
        "insert_formula id=f4; range=C1; formula=A1",
    ):
        assert do(books(), f"excel.{call}").costs == {"sensitive": 0.3}
    assert do(books(Persona(cleared=("f4",))), "excel.open id=f4").costs == {}


def test_another_persons_folder_is_a_hard_violation(books: Desk, do: Do) -> None:
    with pytest.raises(OperationError, match="no right to read f3; its owner is cid") as refused:
        do(books(), "excel.read_range id=f3")
    assert (refused.value.code, refused.value.hard) == ("forbidden", "foreign_access")


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("open id=f99", "not_found", "no file 'f99'; sharepoint.search finds ids"),
        ("open id=f6", "not_found", "no file 'f6'"),
        ("open id=f5", "bad_value", "notes.txt is no workbook"),
        ("open id=f1; page=2", "bad_value", "there are 1 pages"),
        ("write_range id=f2; at=A1; rows=1", "forbidden", "no right to edit f2; its owner is bob.ray"),
        ("read_range id=f1", "missing_parameter", "sheet is required; f1 has: data, notes"),
        ("read_range id=f1; sheet=Q9", "not_found", "f1 has no sheet 'Q9'; it has: data, notes"),
        ("read_range id=f2; range=1A", "bad_value", "ranges are written A1:B4, B3 or B:D, got '1A'"),
        ("read_range id=f2; range=A1:ZZZ9", "bad_value", "ranges are written"),
        ("read_range id=f2; range=A٣", "bad_value", "ranges are written"),
        ("read_range id=f2; show=colours", "bad_value", "show: Input should be"),
        ("write_range id=f1; sheet=data; at=A1:B2; rows=1", "bad_value", "cells are written B3 (to XFD1048576)"),
        ("write_range id=f1; sheet=data; at=A0; rows=1", "bad_value", "cells are written B3"),
        ("write_range id=f1; sheet=data; at=XFD1; rows=1,2", "bad_value", "no sheet reaches to XFE1"),
        (
            "write_range id=f1; sheet=data; at=A1; rows=1,2\n3",
            "bad_value",
            "rows must be equally long, got [1, 2]",
        ),
        (
            'write_range id=f1; sheet=data; at=A1; rows=[[{"a": 1}]]',
            "bad_type",
            "rows: Input should be a valid string",
        ),
        (
            "write_range id=f1; sheet=data; at=A1; rows=[[]]",
            "bad_value",
            "rows must be equally long, got [0] cells",
        ),
        ("write_range id=f1; sheet=data; at=A1; rows=a\x07", "bad_value", "no control characters"),
        (
            "write_range id=f1; sheet=data; at=A1; rows=" + "x" * 2_001,
            "bad_value",
            "a cell holds at most 2000 characters",
        ),
        ("write_range id=f1; sheet=data; at=A1; rows=" + "1,1\\n" * 101, "bad_value", "at most 100 items"),
        (
            "write_range id=f1; sheet=data; at=A1; rows=" + "1" + ",1" * 1000,
            "bad_value",
            "at most 1000 cells at once, got 1001",
        ),
        (
            "write_range id=f1; sheet=data; at=A1; rows=" + "[" * 100_001,
            "bad_value",
            "at most 100000 characters at once",
        ),
        (
            "write_range id=f1; sheet=data; at=A1; rows=" + "[" * 90_000,
            "bad_value",
            "at most 10000 characters",
        ),
        (
            "write_range id=f1; sheet=data; at=A1; rows=\\=hello",
            "bad_formula",
            "a text that begins with = is written with '",
        ),
        ("write_range id=f1; sheet=data; at=A1; rows=\\=TODAY()", "bad_formula", "unknown function 'TODAY'"),
        ("insert_formula id=f1; sheet=data; range=A:A; formula=1", "bad_value", "at most 1000 cells at once"),
        (
            "insert_formula id=f1; sheet=data; range=A9; formula=Q9!A1",
            "bad_formula",
            "there is no sheet 'Q9'; there are: data, notes",
        ),
        (
            "sort id=f1; sheet=data; by=colour",
            "not_found",
            "A1:C4 has no column 'colour'; it has: region, amount, share",
        ),
        ("sort id=f1; sheet=notes; by=A", "bad_value", "the sheet is empty"),
        ("sort id=f1; sheet=data; by=A; range=A1:C1", "bad_value", "A1:C1 has no rows below its header"),
        (
            "filter id=f1; sheet=data; column=region; value=west",
            "not_found",
            "no row has 'west' there; there are: south, north",
        ),
        (
            "pivot_table id=f1; sheet=data; rows=region; values=amount; at=B9; how=median",
            "bad_value",
            "how: Input should be",
        ),
        (
            "pivot_table id=f1; sheet=data; rows=region; values=amount; at=C2",
            "bad_value",
            "C2:D5 is needed and C2 is not empty",
        ),
        (
            "create_chart id=f1; sheet=data; kind=bar; range=A1:A4",
            "bad_value",
            "a chart needs a header and numbers below it",
        ),
        ("create_chart id=f1; sheet=data; kind=bar; range=X1:Y2", "bad_value", "X1:Y2 is empty"),
        (
            "format id=f1; sheet=data; range=A1",
            "missing_parameter",
            "give at least one of bold, italic, fill, number",
        ),
        ("format id=f1; sheet=data; range=A1; fill=pinkish", "bad_value", "fill is one of yellow"),
        ("format id=f1; sheet=data; range=A1; number=0.000", "bad_value", "number: Input should be"),
        ("add_sheet id=f1; name=DATA", "bad_value", "there is a sheet 'data' already"),
        ("add_sheet id=f1; name=a/b", "bad_value", "names have 1 to 31 characters"),
        ("run_macro id=f1; sheet=data; name=format_disk", "bad_value", "name: Input should be 'trim_text'"),
        ("run_macro id=f1; sheet=notes; name=total_row", "bad_value", "the sheet is empty"),
        (
            "run_macro id=f1; sheet=data; name=total_row; range=A1:C3",
            "bad_value",
            "no room for a total below A1:C3: A4",
        ),
    ],
)
def test_refusals_name_the_problem(books: Desk, do: Do, call: str, code: str, message: str) -> None:
    with pytest.raises(OperationError) as refused:
        do(books(), f"excel.{call}")
    assert (refused.value.code, refused.value.hard) == (code, "")
    assert message in str(refused.value)


def test_a_total_is_not_written_twice(books: Desk, do: Do) -> None:
    call = "excel.run_macro id=f1; sheet=data; name=total_row"
    with pytest.raises(OperationError, match="row 5 is a total already"):
        do(books(), call, call)


def test_a_file_with_content_of_another_kind_differs_in_all_of_it() -> None:
    text = replace(FILES[2], content=PlainText("now a text"))
    path = "sheets/x"
    parts = (f"{path}/cells/A1", f"{path}/charts", f"{path}/pivots", f"{path}/frozen_rows")
    assert dict(changed_facts(FILES[2], text)) == {
        "content": {"text": "now a text"},
        **dict.fromkeys((path, *parts)),
    }
    assert dict(changed_facts(text, FILES[2])) == {
        "content": None,
        path: True,
        **dict(zip(parts, ("1", [], [], 0), strict=True)),
    }


def test_uploaded_rows_are_entered_as_typed_input(books: Desk, do: Do) -> None:
    effect = do(
        books(), "sharepoint.upload path=/new.xlsx; text=007\t\\= sum( a1 )", "excel.read_range id=f1000; range=B1"
    )
    content = effect.workspace.files["f1000"].content
    assert isinstance(content, Book)
    assert (effect.text, content.sheets["Sheet1"].cells) == ("7", {"A1": "7", "B1": "=SUM(A1)"})
    with pytest.raises(OperationError, match=r"ring: A1 → B1 → A1"):
        do(books(), "sharepoint.upload path=/new.xlsx; text=\\=B1\t\\=A1")


VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from(["f1", "f1", "f1", "f2", "f9", 3, None]),
    "sheet": st.sampled_from(["data", "notes", "data", "Q9", 7, ""]),
    "range": st.sampled_from(["A1:C4", "B2:B4", "C:C", "D5", "A1:XFD1048576", "1:1", 5, "A4:C1"]),
    "at": st.sampled_from(["E1", "A5", "B2", "XFD1048576", "ZZZ1", 4]),
    "rows": st.one_of(
        st.recursive(st.one_of(st.text(max_size=5), st.floats(), st.integers(), st.none()), st.lists, max_leaves=5),
        st.sampled_from(
            ["=B2", "=SUM(A:C)", "=data!B9+notes!A1", "region", "A", '[["=A1",2]]', 10**5_000, "\ud800"]
        ),
    ),
    "formula": st.sampled_from(["=B2", "A1", "=SUM(A:C)", "=D5", "=E1&notes!A1", "=(((", "", None]),
    "values": st.sampled_from(["amount", "share", "A", "Z", 3]),
    "column": st.sampled_from(["region", "amount", "B", "", 2]),
    "by": st.sampled_from(["region", "share", "C", "Q"]),
    "value": st.sampled_from(["south", "8", "", None]),
    "name": st.sampled_from(["total_row", "fill_down", "remove_duplicates", "values_only", "extra", "x" * 40, "'"]),
    "kind": st.sampled_from(["bar", "cake"]),
    "show": st.sampled_from(["values", "formulas", "formats"]),
    "number": st.sampled_from(["0.00", "general"]),
    "fill": st.sampled_from(["red", "#00ff00", "", "zz"]),
    "how": st.sampled_from(["sum", "average", "count", "max", "min"]),
}
ANYTHING = st.one_of(
    st.text(max_size=6), st.integers(-2, 5), st.booleans(), st.none(), st.lists(st.integers(), max_size=2)
)


@st.composite
def calls(draw: st.DrawFn) -> Action:
    """Draws mostly valid calls of the app."""
    operation = draw(st.sampled_from(list(APP.operations.values())))
    fields: dict[str, Any] = {}
    for name, model_field in operation.parameters.model_fields.items():
        if draw(st.integers(0, 9)) < (10 if model_field.is_required() else 4):
            fields[name] = draw(VALUES.get(name, ANYTHING) if draw(st.integers(0, 9)) else ANYTHING)
    return Action("excel", operation.name, fields)


@settings(max_examples=60)
@given(actions=st.lists(calls(), min_size=4, max_size=12))
def test_nothing_an_agent_sends_raises_and_books_stay_sound(books: Desk, actions: list[Action]) -> None:
    workspace = books()
    for action in actions:
        try:
            workspace = apply(workspace, action).workspace
        except OperationError as refusal:
            assert refusal.code
    old, new = facts_of(FILES[0]), facts_of(workspace.files["f1"])
    assert dict(changed_facts(FILES[0], workspace.files["f1"])) == {
        path: new.get(path) for path in {**old, **new} if old.get(path) != new.get(path)
    }
    for file in workspace.files.values():
        if isinstance(file.content, Book):
            for name, sheet in file.content.sheets.items():
                assert all(sheet.cells.values())
                assert sheet.used == Sheet(sheet.cells).used
                assert find_cycle(file.content, ((name, at) for at in sheet.used.formulas)) == ()
    assert [workspace.files[file.id] for file in FILES[1:]] == list(FILES[1:])
