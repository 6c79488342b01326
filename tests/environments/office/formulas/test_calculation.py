"""Formulas: values as in Excel's documentation, canonical form, and limits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.environments.office.formulas.calculation import displayed_text, find_cycle, value_of, work_of
from upturn.environments.office.formulas.formula import FormulaError, format_formula, parse, shift
from upturn.environments.office.state.address import Area, Position, bounding_area
from upturn.environments.office.state.cell import CellError, cell_text, is_formula, normalize_text, parse_value
from upturn.environments.office.state.workbook import Book, Sheet

CELLS = {
    "A1": "region",
    "B1": "amount",
    "C1": "paid",
    "A2": "north",
    "B2": "12",
    "C2": "TRUE",
    "A3": "South",
    "B3": "8.5",
    "C3": "FALSE",
    "A4": "north",
    "B4": "n/a",
    "A5": "east*",
    "B5": "-3",
    "D1": "=1/0",
    "D2": "2026-03-02",
    "D3": "'12",
    "E1": "10",
    "E2": "20",
    "E3": "30",
}


def shown_text(formula: str, **cells: str) -> str:
    """Returns the displayed text of a cell with this formula, in a book with a second sheet ``Q3 plan`` whose B4 is
    7."""
    sheet = Sheet({**CELLS, **cells, "Z99": formula})
    return displayed_text(Book({"data": sheet, "Q3 plan": Sheet({"B4": "7"})}), "data", "Z99")


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        # operators: -2^2 is (-2)^2 and 2^3^2 is (2^3)^2 in Excel
        ("=1+2*3", "7"),
        ("=(1+2)*3", "9"),
        ("=-2^2", "4"),
        ("=2^3^2", "64"),
        ("=2^-1", "0.5"),
        ("=-50%", "-0.5"),
        ("=10-2-3", "5"),
        ("=7/2/7", "0.5"),
        ("=1/3", "0.3333333333"),
        ("=1+2&3", "33"),
        ('="a"&B2&TRUE', "a12TRUE"),
        ('="say ""hi"""', 'say "hi"'),
        ("=1<2", "TRUE"),
        ('="a"="A"', "TRUE"),
        ("=2>=3", "FALSE"),
        ("=1<>1", "FALSE"),
        ('=1="1"', "FALSE"),
        ('=99<"a"', "TRUE"),
        ('="z"<TRUE', "TRUE"),
        ("=X1=0", "TRUE"),
        ('=X1=""', "TRUE"),
        ("=0.1+0.2=0.3", "TRUE"),
        ("=0.1+0.2-0.3", "0"),
        ('="5"*2', "10"),
        ("=TRUE+1", "2"),
        ("=--D3", "12"),
        ("=X1", "0"),
        ("=D2", "2026-03-02"),
        ('=D2<"2026-03-10"', "TRUE"),
        ("=123456789012", "123456789012"),
        ("='Q3 plan'!B4*2", "14"),
        ("=SUM('Q3 plan'!A1:C9)", "7"),
        ("=$B$2+B$3+$B5", "17.5"),
        # sums and counts
        ("=SUM(B2:B5)", "17.5"),
        ("=SUM(B5:B2)", "17.5"),
        ("=SUM(B:B)", "17.5"),
        ('=SUM("5",TRUE,1)', "7"),
        ("=SUM(C2:C3,D3)", "0"),
        ("=AVERAGE(E1:E3)", "20"),
        ("=MIN(B2:B5)", "-3"),
        ("=MAX(B2:B5,100)", "100"),
        ("=MAX(A2:A4)", "0"),
        ("=COUNT(A1:E3)", "5"),
        ('=COUNT("3",TRUE,"x",D1)', "2"),
        ("=COUNTA(A1:B9)", "10"),
        ('=COUNTIF(A2:A5,"NORTH")', "2"),
        ('=COUNTIF(A2:A5,"*o*")', "3"),
        ('=COUNTIF(A2:A5,"?orth")', "2"),
        ('=COUNTIF(A2:A5,"east~*")', "1"),
        ('=COUNTIF(B2:B5,">8")', "2"),
        ('=COUNTIF(B2:B5,"<>12")', "3"),
        ('=COUNTIF(A1:A10,"<>north")', "8"),
        ('=COUNTIF(A1:A10,"")', "5"),
        ("=COUNTIF(B2:B5,12)", "1"),
        ("=COUNTIF(D1:D3,12)", "1"),
        ('=SUMIF(A2:A4,"north",B2:B4)', "12"),
        ('=SUMIF(E1:E3,">=20")', "50"),
        ('=SUMIF(A2:A4,"south",E1)', "20"),
        ('=AVERAGEIF(A2:A4,"<>x",E1:E3)', "20"),
        # conditions
        ('=IF(B2>10,"much","little")', "much"),
        ('=IF(B3>10,"much")', "FALSE"),
        ('=IFERROR(D1,"none")', "none"),
        ("=IFERROR(B2,0)", "12"),
        ("=AND(B2>1,C2)", "TRUE"),
        ("=OR(C3,B2<1)", "FALSE"),
        ("=NOT(C3)", "TRUE"),
        ("=ROUND(2.5,0)", "3"),
        ("=ROUND(-2.5,0)", "-3"),
        ("=ROUND(2.675,2)", "2.68"),
        ("=ROUND(1234,-2)", "1200"),
        ("=ABS(B5)", "3"),
        # texts
        ("=CONCAT(A2:B2,1)", "north121"),
        ('=CONCATENATE(A2,"-",B2)', "north-12"),
        ('=LEFT("hello",2)&RIGHT("hello")&MID("hello",2,3)', "heoell"),
        ('=RIGHT("hello",0)', ""),
        ('=LEN(TRIM("  a  b "))', "3"),
        ('=UPPER("ab")&LOWER("CD")', "ABcd"),
        ("=LEN(B2)", "2"),
        # look-ups
        ('=VLOOKUP("south",A2:B5,2,FALSE)', "8.5"),
        ('=VLOOKUP("so*",A2:B5,2,FALSE)', "8.5"),
        ("=VLOOKUP(25,E1:E3,1)", "20"),
        ('=XLOOKUP("south",A2:A5,B2:B5)', "8.5"),
        ('=XLOOKUP("west",A2:A5,B2:B5,"none")', "none"),
        ("=XLOOKUP(25,E1:E3,A1:A3,0,-1)", "north"),
        ("=XLOOKUP(25,E1:E3,A1:A3,0,1)", "South"),
        ('=INDEX(B2:B5,MATCH("south",A2:A5,0))', "8.5"),
        ("=INDEX(A1:C3,3,1)", "South"),
        ("=INDEX(A1:C1,2)", "amount"),
        ("=SUM(INDEX(A1:E3,0,5))", "60"),
        ("=MATCH(25,E1:E3)", "2"),
        ("=MATCH(25,E1:E3,1)", "2"),
    ],
)
def test_formulas_have_excels_values(formula: str, shown: str) -> None:
    assert shown_text(formula) == shown


@pytest.mark.parametrize(
    ("formula", "error"),
    [
        ("=1/0", "#DIV/0!"),
        ("=AVERAGE(A2:A4)", "#DIV/0!"),
        ('=AVERAGEIF(A2:A4,"west",B2:B4)', "#DIV/0!"),
        ("=0^-1", "#DIV/0!"),
        ("=D1+1", "#DIV/0!"),
        ("=SUM(D1:E3)", "#DIV/0!"),
        ("=COUNTIF(D1:D3,D1)&D1", "#DIV/0!"),
        ("=IF(D1,1,2)", "#DIV/0!"),
        ("=0^0", "#NUM!"),
        ("=(-8)^0.5", "#NUM!"),
        ("=10^400", "#NUM!"),
        ("=1E300*1E300", "#NUM!"),
        ("=A2+1", "#VALUE!"),
        ('=SUM("x")', "#VALUE!"),
        ("=E1:E3+1", "#VALUE!"),
        ('=IF("yes",1,2)', "#VALUE!"),
        ("=AND(A2:A3)", "#VALUE!"),
        ('=LEFT("a",-1)', "#VALUE!"),
        ('=MID("a",0,1)', "#VALUE!"),
        ("=VLOOKUP(1,E1:E3,0)", "#VALUE!"),
        ("=XLOOKUP(1,E1:E3,A1:A2)", "#VALUE!"),
        ("=INDEX(E1:E3,-1)", "#VALUE!"),
        ("=VLOOKUP(1,E1:E3,2)", "#REF!"),
        ("=INDEX(E1:E3,4)", "#REF!"),
        ("=nowhere!A1", "#REF!"),
        ("=#REF!+1", "#REF!"),
        ('=VLOOKUP("west",A2:B5,2,FALSE)', "#N/A"),
        ("=VLOOKUP(5,E1:E3,1)", "#N/A"),
        ("=MATCH(1,A1:B2,0)", "#N/A"),
        ('=XLOOKUP("west",A2:A5,B2:B5)', "#N/A"),
        ("=#N/A", "#N/A"),
        ("=IFERROR(#N/A,#NUM!)", "#NUM!"),
        ("=SUM(", "#NAME?"),
        ("=NOSUCH(1)", "#NAME?"),
        ("=TODAY()", "#NAME?"),
    ],
)
def test_invalid_formulas_have_error_values(formula: str, error: str) -> None:
    assert shown_text(formula) == error


@pytest.mark.parametrize(
    ("typed_in", "form"),
    [
        ("= sum( b2 : b5 )", "=SUM(B2:B5)"),
        ("=((1+2))*3", "=(1+2)*3"),
        ("=1+(2*3)", "=1+2*3"),
        ("=1-(2-3)", "=1-(2-3)"),
        ("=(-2)^2", "=-2^2"),
        ("=-(2^2)", "=-(2^2)"),
        ("=(1+2)%", "=(1+2)%"),
        ("=$b$5:b2", "=$B2:B$5"),
        ("='Q3'!b4", "='Q3'!B4"),
        ("=plan!a1", "=plan!A1"),
        ("='it''s'!A1", "='it''s'!A1"),
        ("=sum(b:a)", "=SUM(A:B)"),
        ('= "a b" & true', '="a b"&TRUE'),
        ("=1.50+.5", "=1.5+0.5"),
        ("=übersicht!a1", "=übersicht!A1"),
    ],
)
def test_a_formula_has_a_canonical_form(typed_in: str, form: str) -> None:
    assert format_formula(parse(typed_in).tree) == form
    assert format_formula(parse(form).tree) == form


NODES = st.recursive(
    st.sampled_from(["1", "2.5", '"a"', "TRUE", "B2", "$C$3", "A1:B2", "'Q3 plan'!B4", "#N/A", "C:D"]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["-{}", "{}%", "({})", "SUM({},1)", "IF({},{},2)"]), inner, inner),
        st.tuples(
            st.sampled_from(["{}+{}", "{}-{}", "{}/{}", "{}^{}", "{}&{}", "{}<={}", "({})*({})"]), inner, inner
        ),
    ).map(lambda parts: parts[0].format(*parts[1:])),
    max_leaves=12,
)


@settings(max_examples=40)
@given(NODES)
def test_writing_a_formula_keeps_its_tree(text: str) -> None:
    tree = parse(f"={text}").tree
    assert parse(format_formula(tree)).tree == tree


@settings(max_examples=40)
@given(st.text(alphabet="=SUM(A1:B2)!$'\"#,;+-*/^&<>% .0é٣\n", max_size=30))
def test_any_text_as_a_formula_has_a_value_or_an_error_to_show(text: str) -> None:
    book = Book({"data": Sheet({**CELLS, "Z99": f"={text}"})})
    assert isinstance(value_of(book, "data", "Z99"), float | str | bool | CellError)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("=1+", "'the end' is not expected there"),
        ("=(1", "')' is missing before 'the end'"),
        ("=1 2", "'2' is not expected there"),
        ("=TODAY()", "unknown function 'TODAY'; known: SUM, AVERAGE"),
        ("=north", "unknown name 'NORTH'; texts stand in quotation marks"),
        ("=ROUND(1)", "ROUND takes 2 arguments, got 1"),
        ("=IF(1)", "IF takes 2 to 3 arguments, got 1"),
        ("=SUM(A1;B1)", "cannot read ';B1)'"),
        ("=A1:5", "a range ends with a cell, got '5'"),
        ("=data!", "a cell is expected behind 'data'"),
        ("=ZZZ1", "no sheet has 'ZZZ1'"),
        ("=1e999", "'1e999' is too large a number"),
        ("=" + "(" * 70 + "1" + ")" * 70, "more than 64 levels deep"),
        ("=" + "+".join("1" * 70), "more than 64 levels deep"),
        ("=" + "1" * 2_000, "at most 2000 characters"),
    ],
)
def test_parse_errors_give_the_reason(formula: str, message: str) -> None:
    with pytest.raises(FormulaError) as refused:
        parse(formula)
    assert message in str(refused.value)


def test_relative_references_move_with_the_formula() -> None:
    tree = parse("=A1+$A1+A$1+$A$1+SUM(A1:B$2)+SUM(C:C)+'Q3 plan'!A1").tree
    assert format_formula(shift(tree, columns=1, rows=2)) == "=B3+$A3+B$1+$A$1+SUM(B$2:C3)+SUM(D:D)+'Q3 plan'!B3"
    assert format_formula(shift(parse("=A1+B2").tree, columns=-1, rows=0)) == "=#REF!+A2"


def test_long_chains_are_computed() -> None:
    cells = {"A1": "1", **{f"A{row}": f"=A{row - 1}+1" for row in range(2, 2_001)}}
    assert displayed_text(Book({"data": Sheet(cells)}), "data", "A2000") == "2000"


def test_circular_references_are_detected_and_show_an_error() -> None:
    cells = {"A1": "=B1+1", "B1": "=SUM(C1:C3)", "C2": "=A1", "D1": "=A1", "E1": "=IFERROR(A1,5)", "F1": "=2"}
    book = Book({"data": Sheet(cells)})

    assert set(find_cycle(book, iter([("data", "D1")]))) == {("data", "A1"), ("data", "B1"), ("data", "C2")}
    assert find_cycle(book, iter([("data", "F1"), ("data", "Z1")])) == ()
    assert [displayed_text(book, "data", at) for at in ("A1", "B1", "C2", "D1", "E1", "F1")] == ["#REF!"] * 4 + [
        "5",
        "2",
    ]


@given(st.lists(st.frozensets(st.integers(0, 4), max_size=3), min_size=5, max_size=5))
def test_cells_that_depend_on_a_cycle_show_an_error(needs: list[frozenset[int]]) -> None:
    cells = {f"A{at + 1}": "=1" + "".join(f"+A{need + 1}" for need in sorted(needs[at])) for at in range(5)}
    reached = [set(need) for need in needs]
    for _ in range(5):
        for item in reached:
            item.update(*(reached[other] for other in tuple(item)))
    in_rings = {at for at in range(5) if at in reached[at]}
    book = Book({"data": Sheet(cells)})
    shows_error = {at for at in range(5) if value_of(book, "data", f"A{at + 1}") is CellError.REFERENCE}
    assert shows_error == {at for at in range(5) if in_rings & {at, *reached[at]}}

    ring = [int(address[1:]) - 1 for _, address in find_cycle(Book({"data": Sheet(cells)}), iter(_keys(cells)))]
    assert bool(ring) == bool(in_rings)
    assert all(after in needs[at] for at, after in zip(ring, ring[1:] + ring[:1], strict=True))


def _keys(cells: dict[str, str]) -> list[tuple[str, str]]:
    return [("data", address) for address in cells]


@given(
    st.frozensets(st.tuples(st.integers(1, 5), st.integers(1, 9)), max_size=12),
    *(st.tuples(st.integers(1, 9), st.integers(1, 9)) for _ in range(2)),
)
def test_the_formulas_of_an_area_are_those_positioned_in_it(
    places: frozenset[tuple[int, int]], one: tuple[int, int], other: tuple[int, int]
) -> None:
    sheet = Sheet({**{Position(*corner).address: "=1" for corner in places}, "F1": "7"})
    area = bounding_area((Position(*one), Position(*other)))
    expected = sorted(Position(*corner) for corner in places if Position(*corner) in area)
    assert list(sheet.formulas_in(area)) == [position.address for position in expected]
    assert list(sheet.with_cells({"A1": "=2"}).formulas_in(Area(Position(1, 1), Position(1, 1)))) == ["A1"]


def test_a_range_to_the_end_of_a_sheet_costs_no_more_than_its_cells() -> None:
    book = Book({"data": Sheet({"A1": "1", "XFD1048576": "2", "B1": "=SUM(C2:XFD1048576)"})})
    assert displayed_text(book, "data", "B1") == "2"
    assert displayed_text(Book({"d": Sheet({"A1": "x", "B1": '=COUNTIF(C:D,"<>x")'})}), "d", "B1") == "2097152"


def test_the_work_of_a_book_counts_the_cells_and_parts_of_its_formulas() -> None:
    data = {"A1": "1", "A2": "2", "A3": "3", "B1": "=SUM(A1:A2)", "B2": "=SUM(A:A)+SUM(A:A)", "B3": "=oops("}
    # 11 signs, 2 cells; 18 signs and two ranges of which the 6 filled cells of the sheet are the most; 6 signs.
    assert work_of(Book({"data": Sheet(data)})) == 11 + 2 + 18 + 6 + 6 + 6
    other = {"A1": "=SUM(data!A1:A900)", "A2": "=gone!A1"}  # of other sheets theirs, of missing ones nothing
    assert work_of(Book({"data": Sheet(data), "other": Sheet(other)})) == 49 + 18 + 6 + 8


def test_values_are_computed_once_per_book() -> None:
    book = Book({"data": Sheet({"A1": "1", "B1": "=A1+1"})})
    assert (displayed_text(book, "data", "B1"), book.values) == ("2", {("data", "B1"): 2.0})
    after = book.with_sheet("data", book.sheets["data"].with_cells({"A1": "5"}))
    assert (displayed_text(after, "data", "B1"), displayed_text(book, "data", "B1")) == ("6", "2")
    assert book == Book({"data": Sheet({"A1": "1", "B1": "=A1+1"})})


@pytest.mark.parametrize(
    ("typed_in", "held"),
    [
        ("007", "7"),
        ("1.50", "1.5"),
        ("1e3", "1000"),
        ("true", "TRUE"),
        ("#n/a", "#N/A"),
        ("2026-03-02", "2026-03-02"),
        ("'007", "'007"),
        ("'abc", "abc"),
        ("1,200", "1,200"),
        ("٣", "٣"),
        ("=", "="),
        ("-0", "0"),
        ("1e999", "1e999"),
    ],
)
def test_input_to_a_cell_is_normalized(typed_in: str, held: str) -> None:
    assert normalize_text(typed_in) == held


@settings(max_examples=40)
@given(st.one_of(st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False), st.booleans()))
def test_a_cells_text_parses_back_to_its_value(value: float | str | bool) -> None:
    text = cell_text(value)
    assert not is_formula(text)
    again = parse_value(text)
    if isinstance(value, float):
        assert isinstance(again, float)
        assert again == pytest.approx(value, rel=1e-14, abs=0)
    else:
        assert again == value
