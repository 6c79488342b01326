"""Formulas that are written differently and compute the same, and such as only seem to."""

import pytest

from upturn.environments.office.formulas.equivalence import equal_cells
from upturn.environments.office.state.workbook import Book, Sheet

TABLE = {
    **{"A1": "region", "B1": "price", "C1": "stock"},
    **{"A2": "north", "B2": "3", "C2": "4"},
    **{"A3": "south", "B3": "5", "C3": "5"},
    **{"A4": "north", "B4": "2", "C4": "6"},
}


def book(formula: str, **further: str) -> Book:
    """The table with this in E2."""
    return Book({"data": Sheet({**TABLE, "E2": formula, **further}), "other sheet": Sheet({"A1": "7"})})


def same(one: str, other: str) -> bool:
    """Whether both compute the same in E2."""
    return equal_cells(book(one), book(other), [("data", "E2")]) == {("data", "E2")}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("=SUM(B2:B4)", "=B2+B3+B4"),
        ("=B2*C2", "=C2*B2*1"),
        ("=B2*C2", "=( C2 * $B$2 )"),
        ("=SUM(B2:B4)/3", "=AVERAGE(B2:B4)"),
        ("=B2-C2", "=-(C2-B2)"),
        ('=SUMIF(A2:A4,"north",B2:B4)', '=IF(A2="north",B2,0)+IF(A3="north",B3,0)+IF(A4="north",B4,0)'),
        ("='other sheet'!A1+B2", "=B2+'other sheet'!$A$1"),
    ],
)
def test_the_same_by_other_words_is_the_same(one: str, other: str) -> None:
    assert same(one, other)
    assert same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("=SUM(B2:B4)", "=10"),
        ("=SUM(B2:B4)", "=B2+B3+2"),
        ("=SUM(B2:B4)", "=SUM(B2:B3)"),
        ("=B3*C3", "=B3*B3"),
        ("=B3*C3", "=B3*C3+0*B9+IF(B3=5,0,1)"),
        ('=SUMIF(A2:A4,"north",B2:B4)', "=B2+B4"),
        ("=B2*C2", "=B2*C2x"),
        ("=B2*C2", "=B2*C2 =B2*C2"),
        ("='other sheet'!A1+B2", "=B2+7"),
        ("=MAX(B2:B4)", "=B3"),
    ],
)
def test_what_is_the_same_for_these_numbers_alone_is_not_the_same(one: str, other: str) -> None:
    assert not same(one, other)
    assert not same(other, one)


def test_formulas_that_need_each_other_are_compared_through_each_other() -> None:
    one = book("=E3*2", E3="=B2+C2")
    other = book("=E3+E3", E3="=C2+B2")
    wrong = book("=E3+E3", E3="=C2+3")
    cells = [("data", "E2"), ("data", "E3")]
    assert equal_cells(one, other, cells) == set(cells)
    assert equal_cells(one, wrong, cells) == set()
