"""Formulas: worked values, errors, limits, and agreement with Python's own arithmetic."""

import ast
import operator
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.errands.formula import (
    FormulaError,
    cells_between,
    column_letters,
    column_number,
    is_formula_readable,
    shown_value,
)

CELLS = {"A1": "item", "B1": "10", "B2": "2.5", "B3": "-4", "B4": "=B1*2", "C1": "=1/0", "D1": "٣", "D2": "1e3"}


def shown(formula: str, cells: Mapping[str, str] = CELLS) -> str:
    return shown_value({**cells, "Z9": formula}, "Z9")


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("=1+2*3", "7"),
        ("=(1+2)*3", "9"),
        ("=8/4/2", "1"),
        ("=8-4-2", "2"),
        ("=-2*-3", "6"),
        ("=--2", "2"),
        ("=2-(-3)", "5"),
        ("=1/3", "0.3333333333"),
        ("=0.1+0.2", "0.3"),
        ("=-B9", "0"),
        ("=0*-1", "0"),
        ("=B1", "10"),
        ("=b1 + b2", "12.5"),
        ("=B4+B3", "16"),
        ("=A1+1", "1"),
        ("=SUM(B1:B3)", "8.5"),
        ("=SUM(B3:B1)", "8.5"),
        ("=SUM(A1:B3)", "8.5"),
        ("=SUM(B1,B3,5)", "11"),
        ("=SUM(B1:B2,B4)", "32.5"),
        ("=SUM(B1+1,2*3)", "17"),
        ("=SUM(X1:X5)", "0"),
        ("=AVERAGE(B1:B4)", "7.125"),
        ("=MIN(B1:B4)", "-4"),
        ("=MAX(B1:B4)", "20"),
        ("=MIN(X1)", "0"),
        ("=COUNT(A1:B4)", "4"),
        ("=COUNT(X1:X9)", "0"),
        ("=COUNT(D1:D2)", "0"),
        ("=MAX(MIN(3,B2),SUM(1,1))", "2.5"),
        ("=12345678901", "1.23456789e+10"),
    ],
)
def test_values_worked_by_hand(formula: str, value: str) -> None:
    assert shown(formula) == value


@pytest.mark.parametrize(
    ("formula", "error"),
    [
        ("=1/0", "#DIV/0!"),
        ("=1/B9", "#DIV/0!"),
        ("=AVERAGE(X1:X2)", "#DIV/0!"),
        ("=C1+1", "#DIV/0!"),
        ("=SUM(B1,C1)", "#DIV/0!"),
        ("=", "#NAME?"),
        ("=1+", "#NAME?"),
        ("=(1", "#NAME?"),
        ("=1)", "#NAME?"),
        ("=1 2", "#NAME?"),
        ("=+1", "#NAME?"),
        ("=1E5", "#NAME?"),
        ("=.5", "#NAME?"),
        ("=LEN(A1)", "#NAME?"),
        ("=SUM", "#NAME?"),
        ("=SUM()", "#NAME?"),
        ("=SUM(B1;B2)", "#NAME?"),
        ("=SUM(B1:)", "#REF!"),
        ("=B1:B2", "#NAME?"),
        ("=A0", "#NAME?"),
        ("=AAA1", "#NAME?"),
        ("=A10000", "#NAME?"),
        ("=$B$1", "#NAME?"),
        ("=٣+1", "#NAME?"),
        ("=½", "#NAME?"),
        ("=🙂", "#NAME?"),
        ('="x"', "#NAME?"),
        ("=SUM(A1:ZZ9999)", "#REF!"),
        (f"={'9' * 400}", "#NUM!"),
        (f"={'9' * 400}-{'9' * 400}", "#NUM!"),
    ],
)
def test_errors_are_values(formula: str, error: str) -> None:
    assert shown(formula) == error


def test_text_is_shown_unchanged_and_empty_cells_as_empty_text() -> None:
    assert [shown_value(CELLS, cell) for cell in ("A1", "B2", "D1", "Q7")] == ["item", "2.5", "٣", ""]


def test_cycles_are_reference_errors() -> None:
    assert shown_value({"A1": "=A1"}, "A1") == "#REF!"
    assert shown_value({"A1": "=SUM(A1:A3)"}, "A1") == "#REF!"
    ring = {"A1": "=B1+1", "B1": "=C1+1", "C1": "=A1+1", "D1": "=A1"}
    assert [shown_value(ring, cell) for cell in ring] == ["#REF!"] * 4


def test_references_may_be_forty_deep() -> None:
    chain = {f"A{row}": f"=A{row + 1}" for row in range(1, 42)} | {"A42": "7"}
    assert shown_value(chain, "A1") == "7"
    assert shown_value(chain | {"A42": "=A43", "A43": "7"}, "A1") == "#REF!"


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("-", ""), ("SUM(", ")")])
def test_brackets_may_be_forty_deep(opening: str, closing: str) -> None:
    assert shown(f"={opening * 40}5{closing * 40}") == "5"
    assert shown(f"={opening * 41}5{closing * 41}") == "#REF!"
    assert shown(f"={opening * 4000}5{closing * 4000}") == "#REF!"


def test_repeated_references_are_evaluated_once() -> None:
    # 39 cells that refer to the next one twice: 2 ** 39 evaluations without sharing.
    doubling = {f"A{row}": f"=A{row + 1}+A{row + 1}{'+0' * 200}" for row in range(1, 40)} | {"A40": "1"}
    assert shown_value(doubling, "A1") == f"{2**39:.10g}"


def test_one_value_reads_at_most_twenty_thousand_cells() -> None:
    block = "AA1:ZZ14"
    assert len(cells_between("AA1", "ZZ14")) == 676 * 14
    assert shown(f"=COUNT({block},{block})", {"AA1": "1"}) == "2"
    assert shown(f"=COUNT({block},{block},{block})", {"AA1": "1"}) == "#REF!"


def test_columns_are_counted_in_letters() -> None:
    assert [column_number(letters) for letters in ("A", "Z", "AA", "AZ", "BA", "ZZ")] == [1, 26, 27, 52, 53, 702]
    assert all(column_number(column_letters(number)) == number for number in range(1, 703))
    assert cells_between("B2", "A1") == ["A1", "B1", "A2", "B2"]
    with pytest.raises(FormulaError, match="#REF!"):
        cells_between("A1", "b2")


def test_readability_depends_on_the_grammar_only() -> None:
    for text in ("1/0", "AVERAGE(B2:B9)", "B2/(B3-B3)", "SUM(1,2)", "A9999"):
        assert is_formula_readable(text), text
    for text in ("", "1/0+)", "AVERAGE(B2:B9)(", "B2/B3)(", "IF(1)", "((", "(" * 50 + "1" + ")" * 50):
        assert not is_formula_readable(text), text


numbers = st.integers(0, 999).map(str) | st.tuples(st.integers(0, 99), st.integers(0, 99)).map(
    lambda parts: f"{parts[0]}.{parts[1]:02}"
)
expressions = st.recursive(
    numbers,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", " + ", " / "]), inner).map("".join)
        | inner.map(lambda text: f"({text})")
        | inner.map(lambda text: f"-{text}")
    ),
    max_leaves=12,
)
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def by_python(node: ast.expr) -> float:
    """The value by Python's parser; raises ZeroDivisionError."""
    match node:
        case ast.Constant(int() | float() as value):
            return float(value)
        case ast.UnaryOp(ast.USub(), operand):
            return -by_python(operand)
        case ast.BinOp(left, sign, right):
            return float(OPERATORS[type(sign)](by_python(left), by_python(right)))
    raise AssertionError(ast.dump(node))


@given(expressions)
@settings(max_examples=150)
def test_arithmetic_agrees_with_python(text: str) -> None:
    try:
        value = by_python(ast.parse(text, mode="eval").body)
    except ZeroDivisionError:
        expected = "#DIV/0!"
    else:
        expected = f"{value + 0.0:.10g}"
    assert shown(f"={text}") == expected
    assert is_formula_readable(text)


@given(st.text(max_size=30) | st.text("=SUM(),:+-*/AB12. ", max_size=30), st.text(max_size=10))
@settings(max_examples=150)
def test_no_text_raises(text: str, other: str) -> None:
    cells = {"A1": f"={text}", "A2": other, "A3": "=A1+A2"}
    assert all(isinstance(shown_value(cells, cell), str) for cell in cells)
    assert isinstance(is_formula_readable(text), bool)
