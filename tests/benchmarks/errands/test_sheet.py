"""The sheet app and the target user: exact observations and changes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.errands.environment import apply
from benchmarks.errands.operation import Effect, OperationError
from benchmarks.errands.workspace import Message, Sheet, Workspace, changes
from upturn.records import Action

Apply = Callable[[str | Action], Effect]
Refusal = Callable[[str | Action], OperationError]


def write(cell: str, value: object) -> Action:
    return Action("sheet", "write", {"sheet": "costs", "cell": cell, "value": value})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("sheet.read sheet=costs", "1 item amount\n2 rent 40\n3 food 25"),
        ("sheet.read sheet=costs; range=B2", "40"),
        ("sheet.read sheet=costs; range=D7", "empty"),
        ("sheet.read sheet=costs; range=B3:A2", "2 rent 40\n3 food 25"),
        ("sheet.read sheet=costs; range=B3:C4", "3 25 -\n4 - -"),
        ("sheet.find sheet=costs; text=FOOD", "A3"),
        ("sheet.find sheet=costs; text=25", "B3"),
    ],
)
def test_read_operations_change_nothing(apply_call: Apply, office: Workspace, call: str, text: str) -> None:
    effect = apply_call(call)
    assert effect.text == text
    assert effect.workspace == office


def test_empty_sheet_reads_as_one_empty_cell(office: Workspace) -> None:
    empty = replace(office, sheets={"costs": Sheet("costs", {})})
    assert apply(empty, Action("sheet", "read", {"sheet": "costs"})).text == "1 -"


@pytest.mark.parametrize(
    ("value", "stored", "shown"),
    [
        ("hello", "hello", "hello"),
        (17, "17", "17"),
        ("= sum( b2 : b3 )", "=SUM(B2:B3)", "65"),
        ("=B2/B9", "=B2/B9", "#DIV/0!"),
        ("=B4", "=B4", "#REF!"),
    ],
)
def test_write_stores_the_text_and_shows_its_value(
    apply_call: Apply, office: Workspace, value: object, stored: str, shown: str
) -> None:
    effect = apply_call(write("B4", value))
    assert effect.text == shown
    assert changes(office, effect.workspace) == {"sheet/costs/B4": stored}
    assert changes(effect.workspace, office) == {"sheet/costs/B4": None}


def test_formulas_follow_their_cells(apply_call: Apply) -> None:
    total = apply_call(write("B4", "=SUM(B2:B3)")).workspace
    raised = apply(total, write("B2", "100")).workspace
    assert apply(raised, Action("sheet", "read", {"sheet": "costs", "range": "B4"})).text == "125"
    assert apply(raised, Action("sheet", "find", {"sheet": "costs", "text": "125"})).text == "B4"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("sheet.read sheet=none", "not_found"),
        ("sheet.read sheet=costs; range=A1:ZZ9999", "bad_value"),
        ("sheet.read sheet=costs; range=A1:A201", "bad_value"),
        ("sheet.find sheet=costs; text=gold", "not_found"),
        (write("B4", "=1/0+)"), "bad_formula"),
        (write("B4", "=AVERAGE(C1:C2)("), "bad_formula"),
        (write("B4", "=LEN(A2)"), "bad_formula"),
        (write("B4", "="), "bad_formula"),
    ],
)
def test_refusals_have_a_code(refusal: Refusal, call: str | Action, code: str) -> None:
    assert refusal(call).code == code


def test_refusals_name_the_limits(refusal: Refusal) -> None:
    assert str(refusal("sheet.read sheet=none")) == "no sheet 'none'; there are: costs"
    assert str(refusal("sheet.read sheet=costs; range=A1:A201")) == (
        "a read shows at most 200 cells, 'A1:A201' has 201"
    )


@pytest.mark.parametrize(
    ("call", "text", "message", "is_final"),
    [
        ("user.answer text=forty", "answered", Message("answer", "forty"), True),
        ("user.refuse text=no", "refused", Message("refuse", "no"), True),
        ("user.finish", "done", Message("finish"), True),
        ("user.ask text=why", "the instruction says all there is to know", Message("ask", "why"), False),
    ],
)
def test_only_ask_does_not_end_the_task(
    apply_call: Apply, office: Workspace, call: str, text: str, message: Message, is_final: bool
) -> None:
    effect = apply_call(call)
    assert (effect.text, effect.is_final) == (text, is_final)
    assert effect.workspace == replace(office, messages=(message,))
