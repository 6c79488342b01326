"""Other formulas with the same values: products of columns, and sums by group where no pivot table is asked for."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from upturn.environments.office.generation import Scenario, call
from upturn.environments.office.solutions.solution import Solution, with_calls
from upturn.environments.office.state import Book
from upturn.records import Action, JsonValue

_PRODUCTS = {
    "product commuted": "=C2*B2",
    "product with fixed columns": "=$B2*$C2",
    "product in brackets": "=( B2 * C2 )",
    "product of a sum": "=SUM(B2)*C2",
}
_SUMS = {
    "SUMIF": "=SUMIF(data!A2:A{last},A{row},data!C2:C{last})",
    "SUMIF with fixed ranges": "=SUMIF(data!$A$2:$A${last},$A{row},data!$C$2:$C${last})",
    "SUMIF with the label": '=SUMIF(data!A2:A{last},"{label}",data!C2:C{last})',
}


def _product(formula: str, scenario: Scenario) -> tuple[Action, ...]:
    def changed(action: Action) -> Action:
        is_product = action.name == "excel.insert_formula" and action.parameters["formula"] == "=B2*C2"
        return replace(action, parameters={**action.parameters, "formula": formula}) if is_product else action

    return with_calls(scenario, changed)


def _sums(
    formula: str,
    scenario: Scenario,
    *,
    order: Callable[[list[str]], list[str]] = sorted,
    has_total: bool = False,
    heading: str = "",
) -> tuple[Action, ...] | None:
    pivot = next((action for action in scenario.draft.oracle if action.name == "excel.pivot_table"), None)
    if pivot is None or "pivot" in scenario.instruction:
        return None
    book = scenario.workspace.files[str(pivot.parameters["id"])].content
    assert isinstance(book, Book)  # a pivot table is in a workbook
    cells = book.sheets["data"].cells
    last = sum(address.startswith("A") for address in cells)
    labels = order(list(dict.fromkeys(cells[f"A{row}"] for row in range(2, last + 1))))
    rows: list[JsonValue] = [[cells["A1"], heading or cells["C1"]]]
    rows += [[label, formula.format(last=last, row=row, label=label)] for row, label in enumerate(labels, start=2)]
    if has_total:
        rows.append(["total", f"=SUM(B2:B{len(labels) + 1})"])
    write = call(
        "excel.write_range", id=pivot.parameters["id"], sheet=pivot.parameters["to_sheet"], at="A1", rows=rows
    )
    return tuple(write if action is pivot else action for action in scenario.draft.oracle)


SOLUTIONS: dict[str, Solution] = {
    **{name: partial(_product, formula) for name, formula in _PRODUCTS.items()},
    **{name: partial(_sums, formula) for name, formula in _SUMS.items()},
    "SUMIF in the order of the table": partial(_sums, _SUMS["SUMIF"], order=list),
    "SUMIF with a total": partial(_sums, _SUMS["SUMIF"], has_total=True),
    "SUMIF with a heading": partial(_sums, _SUMS["SUMIF"], heading="sum"),
}
