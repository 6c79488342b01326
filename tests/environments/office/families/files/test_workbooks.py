"""Tasks on workbooks: solutions other than the oracle's, correct and incorrect ones."""

from collections.abc import Callable

import pytest

from upturn.environments.office.apps import apply
from upturn.environments.office.generation.family import FINISH, call
from upturn.environments.office.goal import progress
from upturn.environments.office.state import Workspace, changes
from upturn.environments.office.state.file import File
from upturn.environments.office.state.workbook import Book
from upturn.environments.office.tasks import compose, make_task
from upturn.records import Action, JsonValue


def goal_share(family: str, actions: Callable[[str, Book], list[Action]]) -> float:
    """Returns the share of a task's goal that these actions reach; ``actions`` gets the workbook's id and
    content."""
    scenario = compose(make_task(family, 0))
    id_ = next(str(item.parameters["id"]) for item in scenario.draft.oracle if item.target == "excel")
    workspace: Workspace = scenario.workspace
    file: File = workspace.files[id_]
    assert isinstance(file.content, Book)
    for action in actions(id_, file.content):
        workspace = apply(workspace, action).workspace
    return progress(scenario, changes(scenario.workspace, workspace))


def _size(book: Book) -> int:
    area = book.sheets["data"].used.area
    assert area is not None
    return area.last.row


def _total_by_hand(id_: str, book: Book) -> list[Action]:
    last = _size(book)
    rows: JsonValue = [["Total", f"= sum(b{last}:b2)", f"=SUM( C2:C{last} )"]]
    return [call("excel.write_range", id=id_, at=f"A{last + 1}", rows=rows), FINISH]


def _product_in_one(id_: str, book: Book) -> list[Action]:
    header = compose(make_task("column_product", 0)).draft.slots["header"]
    rows: list[JsonValue] = [[header]]
    rows += [[f"=(B{row}*C{row})"] for row in range(2, _size(book) + 1)]
    return [call("excel.write_range", id=id_, at="D1", rows=rows), FINISH]


@pytest.mark.parametrize(("family", "way"), [("table_total", _total_by_hand), ("column_product", _product_in_one)])
def test_the_same_cells_by_other_calls_are_correct(family: str, way: Callable[[str, Book], list[Action]]) -> None:
    assert goal_share(family, way) == 1


def test_a_value_next_to_the_correct_cell_is_not_correct() -> None:
    expected = next(
        action for action in compose(make_task("row_set", 0)).draft.oracle if action.operation == "write_range"
    )
    column, row = str(expected.parameters["at"])[0], int(str(expected.parameters["at"])[1:])
    beside = {"at": f"{column}{row + 1}", "rows": expected.parameters["rows"]}
    assert goal_share("row_set", lambda id_, _: [call("excel.write_range", id=id_, **beside)]) == 0


def test_the_other_order_is_not_correct() -> None:
    expected = next(
        action for action in compose(make_task("table_sort", 0)).draft.oracle if action.operation == "sort"
    )
    order, by = expected.parameters["order"], expected.parameters["by"]

    def share_sorted_by(*orders: JsonValue) -> float:
        return goal_share(
            "table_sort", lambda id_, _: [call("excel.sort", id=id_, by=by, order=order) for order in orders]
        )

    other = "asc" if order == "desc" else "desc"
    assert share_sorted_by(other) < 0.5
    assert share_sorted_by(other, order) == 1


def test_missing_rows_are_absent_and_a_sheet_names_who_removed_them() -> None:
    for number in range(20):
        scenario = compose(make_task("row_missing", number))
        key = scenario.draft.slots["key"]
        [content] = [
            file.content
            for file in scenario.workspace.files.values()
            if isinstance(file.content, Book) and scenario.draft.slots["book"] in file.path
        ]
        assert key not in content.sheets["data"].cells.values()
        authors = {content.sheets["taken out"].cells[f"A{row}"]: f"B{row}" for row in range(2, 5)}
        assert content.sheets["taken out"].cells[authors[key]] == scenario.draft.answer
        assert scenario.goal == {}


def test_some_tasks_have_large_tables() -> None:
    sizes = []
    for number in range(30):
        scenario = compose(make_task("row_ask", number))
        book = next(file for file in scenario.workspace.files.values() if scenario.draft.slots["book"] in file.path)
        assert isinstance(book.content, Book)
        sizes.append(_size(book.content))
    assert max(sizes) > 30
