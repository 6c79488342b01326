"""Valid arguments of operations, and the code of every refusal."""

from collections.abc import Callable

import pytest

from benchmarks.errands import OPERATIONS
from benchmarks.errands.operation import Arguments, Operation, OperationError, Parameter, check_arguments
from upturn.records import Action, JsonValue

Refusal = Callable[[str | Action], OperationError]
KINDS = ("text", "people", "hour", "day", "folder", "cell", "range", "flag")


def check(kind: str, value: JsonValue) -> Arguments:
    operation = Operation("app", "do", (Parameter("it", kind),), lambda _, __: None)  # type: ignore[arg-type, return-value]
    return check_arguments(operation, Action("app", "do", {"it": value}))


def code_of(kind: str, value: JsonValue) -> str:
    with pytest.raises(OperationError) as error:
        check(kind, value)
    assert error.value.safety_cost == 0
    return error.value.code


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (Action("", ""), "malformed", "write one call: target.operation name=value; name=value"),
        ("fax.send to=ann", "unknown_target", "unknown target 'fax'; known: mail, calendar, sheet, user"),
        (Action("", "send"), "unknown_target", "unknown target ''; known: mail, calendar, sheet, user"),
        (
            "calendar.delete id=e21",
            "unknown_operation",
            "calendar has no 'delete'; it has: list, read, create, move, cancel",
        ),
        ("mail.read mail=m11", "unknown_parameter", "unknown parameter 'mail'; known: id"),
        ("user.finish text=done", "unknown_parameter", "unknown parameter 'text'; known: none"),
        ("mail.move id=m11", "missing_parameter", "parameter 'folder' is required"),
        ("mail.list folder=spam", "bad_value", None),
        (Action("mail", "read", {"id": None}), "bad_type", "id must be a text, got NoneType"),
    ],
)
def test_order_and_wording_of_refusals(
    refusal: Refusal, call: str | Action, code: str, message: str | None
) -> None:
    error = refusal(call)
    assert error.code == code
    assert message is None or str(error) == message


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("text", "  two words ", "two words"),
        ("text", 7, "7"),
        ("text", 2.5, "2.5"),
        ("text", "x" * 500, "x" * 500),
        ("day", "mon", "mon"),
        ("folder", "archive", "archive"),
        ("flag", "unread", "unread"),
        ("cell", "ZZ9999", "ZZ9999"),
        ("range", "A1", "A1"),
        ("range", "A1:B4", "A1:B4"),
    ],
)
def test_texts_are_read_without_surrounding_blanks(kind: str, value: JsonValue, expected: str) -> None:
    arguments = check(kind, value)
    assert (arguments.text("it"), arguments.has("it"), arguments.has("other")) == (expected, True, False)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", ""),
        ("text", "  "),
        ("text", "x" * 501),
        ("text", "\ud800"),
        pytest.param("text", 10**5000, id="5000 digits"),
        ("day", "Mon"),
        ("day", "sunday"),
        ("folder", "spam"),
        ("flag", "maybe"),
        ("cell", "b3"),
        ("cell", "A0"),
        ("cell", "A1:A2"),
        ("range", "A1:"),
        ("range", "A1:B2:C3"),
    ],
)
def test_texts_outside_of_their_kind_are_bad_values(kind: str, value: JsonValue) -> None:
    assert code_of(kind, value) == "bad_value"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [None, True, {"a": 1}, [[]]])
def test_other_json_is_a_bad_type(kind: str, value: JsonValue) -> None:
    assert code_of(kind, value) == "bad_type"


@pytest.mark.parametrize(("value", "hour"), [(8, 8), ("18", 18), (" 9 ", 9), ("08", 8)])
def test_hours_are_full_hours_of_the_day(value: JsonValue, hour: int) -> None:
    assert check("hour", value).hour("it") == hour


@pytest.mark.parametrize(
    "value",
    [
        7,
        19,
        -8,
        "8.5",
        "9am",
        "",
        "¹¹",
        "٩",
        "0000000088888",
        "0" * 5000 + "9",
        pytest.param(10**5000, id="5000 digits"),
    ],
)
def test_other_hours_are_bad_values(value: JsonValue) -> None:
    assert code_of("hour", value) == "bad_value"


def test_fraction_is_not_an_hour() -> None:
    assert code_of("hour", 9.0) == "bad_type"


@pytest.mark.parametrize(
    ("value", "people"),
    [("ann", ("ann",)), (" ann, bob,,ann", ("ann", "bob")), (["bob", " ann "], ("bob", "ann"))],
)
def test_people_are_named_once_in_their_order(value: JsonValue, people: tuple[str, ...]) -> None:
    assert check("people", value).people("it") == people


@pytest.mark.parametrize("value", ["", ",", [], [str(number) for number in range(21)]])
def test_nobody_and_everybody_are_bad_values(value: JsonValue) -> None:
    assert code_of("people", value) == "bad_value"


def test_optional_parameters_may_be_omitted() -> None:
    operation = OPERATIONS["mail.search"]
    arguments = check_arguments(operation, Action("mail", "search"))
    assert (arguments.text("from"), arguments.has("from")) == ("", False)


def test_every_operation_is_listed_under_its_own_name() -> None:
    assert all(name == f"{operation.target}.{operation.name}" for name, operation in OPERATIONS.items())
    assert len(OPERATIONS) == 20
