"""The limit of a workbook's work."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from upturn.environments.office.apps import Effect
from upturn.environments.office.formulas.calculation import MAX_WORK, work_of
from upturn.environments.office.state import OperationError, Workspace
from upturn.environments.office.state.workbook import Book, Sheet

Do = Callable[..., Effect]
Desk = Callable[..., Workspace]


def test_formulas_over_too_many_cells_are_refused(desk: Desk, do: Do) -> None:
    numbers = "excel.insert_formula id=f50; range=J1:J1000; formula=\\=1"
    sums = "excel.insert_formula id=f50; range=K1:K{}; formula=\\=SUM(J:J)"
    start = do(desk(), numbers, sums.format(40)).workspace
    with pytest.raises(OperationError) as refused:
        do(start, sums.format(60))
    # =1; =SUM(J:J), with the 4 + 1,000 + 60 cells of the sheet.
    work = 1_000 * 2 + 60 * (9 + 1_064)
    assert (refused.value.code, refused.value.hard) == ("bad_formula", "")
    assert str(refused.value) == (
        f"its formulas would read {work:,} cells and signs in all, at most are 50,000; name smaller ranges, or "
        "write fewer formulas"
    )
    with pytest.raises(OperationError, match="at most are 50,000"):  # nor more cells for the same formulas
        do(start, "excel.insert_formula id=f50; range=A3:A1000; formula=1")


def test_a_book_with_too_much_work_may_be_changed_to_less(desk: Desk, do: Do) -> None:
    heavy = {f"A{row}": f"=SUM(B1:B{row})" for row in range(1, 401)} | {f"B{row}": "1" for row in range(1, 401)}
    book = Book({"data": Sheet(heavy)})
    assert work_of(book) > MAX_WORK
    start = desk().with_items(replace(desk().files["f50"], content=book))
    assert do(start, "excel.write_range id=f50; at=B1; rows=2").text == "wrote B1"
    assert do(start, "excel.write_range id=f50; at=A1; rows=2").text == "wrote A1"
    with pytest.raises(OperationError, match="at most are 50,000"):
        do(start, "excel.insert_formula id=f50; range=C1; formula=A400")
