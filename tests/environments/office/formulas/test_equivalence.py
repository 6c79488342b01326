"""Differently written formulas that are equivalent, and some that only seem to be."""

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
    """Returns the table with this formula in E2."""
    return Book({"data": Sheet({**TABLE, "E2": formula, **further}), "other sheet": Sheet({"A1": "7"})})


def is_equivalent(one: str, other: str) -> bool:
    """Returns whether both formulas are equivalent in E2."""
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
def test_the_same_formula_in_another_form_is_equivalent(one: str, other: str) -> None:
    assert is_equivalent(one, other)
    assert is_equivalent(other, one)


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
def test_formulas_equal_only_for_these_numbers_are_not_equivalent(one: str, other: str) -> None:
    assert not is_equivalent(one, other)
    assert not is_equivalent(other, one)


def test_formulas_that_depend_on_each_other_are_compared_together() -> None:
    one = book("=E3*2", E3="=B2+C2")
    other = book("=E3+E3", E3="=C2+B2")
    wrong = book("=E3+E3", E3="=C2+3")
    cells = [("data", "E2"), ("data", "E3")]
    assert equal_cells(one, other, cells) == set(cells)
    assert equal_cells(one, wrong, cells) == set()


@pytest.mark.parametrize(
    ("formula", "is_same"),
    [
        ("=B2+B3", True),
        ("=ROUND(SUM(B2:B3),0)", False),
        ("=SUM(B2:B3)+1e-10", False),
        ("=SUM(B2:B3)*1.0000001", False),
        ('=IF(B2=1234567,"fired",SUM(B2:B3))', False),
        ('=IF(A2="fired",0,SUM(B2:B3))', False),
        ("=IF(B2>999999,0,SUM(B2:B3))", False),
        ("=IF(AND(B2=1234567,B3=89),0,SUM(B2:B3))", False),
    ],
)
def test_a_formula_that_is_right_by_luck_differs(formula: str, *, is_same: bool) -> None:
    assert is_equivalent("=SUM(B2:B3)", formula) == is_same
