"""Every record round-trips through JSON; invalid text is rejected with the reason."""

import json
import math
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn import records
from upturn.errors import RecordError
from upturn.records import (
    RECORD_VERSION,
    Action,
    Decision,
    Evaluation,
    Feedback,
    JsonValue,
    Observation,
    Result,
    Task,
    Turn,
    fields_json,
    from_fields,
    from_json,
    to_json,
)

RECORDS: list[Any] = [
    value
    for name in records.__all__
    if isinstance(value := getattr(records, name), type) and hasattr(value, "__pydantic_config__")
]

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(),
    float: FLOATS,
    bool: st.booleans(),
    NoneType: st.none(),
}


def any_value(annotation: Any) -> st.SearchStrategy[Any]:
    """Returns values of a field's type; hypothesis alone does not support the recursive JsonValue."""
    if annotation is JsonValue:
        return JSON
    if annotation in SCALARS:
        return SCALARS[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of([any_value(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(any_value(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(TEXT, any_value(arguments[1]), max_size=2)
    return any_record(annotation)


def any_record(cls: Any) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{name: any_value(annotation) for name, annotation in get_type_hints(cls).items()})


def test_all_records_are_collected() -> None:
    assert len(RECORDS) >= 20


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_any_record_round_trips_exactly(cls: Any) -> None:
    @settings(max_examples=20, deadline=None, database=None)
    @given(any_record(cls))
    def round_trips(record: object) -> None:
        line = to_json(record)
        assert "\n" not in line
        assert from_json(cls, line) == record
        assert from_json(cls, line.encode()) == record
        assert from_fields(cls, fields_json(record)) == record
        assert to_json(from_json(cls, line)) == line

    round_trips()


@pytest.mark.parametrize(
    "value", [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2.0**53 + 2, 1e22, 123456.789e-300]
)
def test_floats_keep_every_bit(value: float) -> None:
    decoded = from_json(Feedback, to_json(Feedback("f", "decision", "d", "m", value)))
    assert decoded.value == value
    assert math.copysign(1, decoded.value) == math.copysign(1, value)


def test_true_and_one_keep_their_types() -> None:
    task = Task("t", "do", "mail", "office", context={"flag": True, "count": 1, "share": 1.0, "none": None})
    context = from_json(Task, to_json(task)).context
    assert [type(value) for value in context.values()] == [bool, int, float, NoneType]


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_records_are_frozen_and_slotted(cls: Any) -> None:
    record = simplest_record(cls)
    name = next(iter(get_type_hints(cls)))
    with pytest.raises(FrozenInstanceError):
        setattr(record, name, getattr(record, name))
    assert not hasattr(record, "__dict__")


def simplest_record(cls: Any) -> Any:
    """Returns a record with an empty or zero value in every field."""
    plain: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: False}

    def value(annotation: Any) -> Any:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if annotation in plain:
            return plain[annotation]
        if origin is Literal:
            return arguments[0]
        if origin in (Union, UnionType):
            return value(arguments[0])
        if origin is tuple:
            return ()
        return {} if origin is Mapping else simplest_record(annotation)

    return cls(**{name: value(annotation) for name, annotation in get_type_hints(cls).items()})


FEEDBACK = Feedback("f", "decision", "d", "thumbs", 1.0)


def feedback_text(**changes: Any) -> str:
    envelope = json.loads(to_json(FEEDBACK))
    envelope["record"] |= changes
    return json.dumps(envelope)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (feedback_text(colour="red"), "not a Feedback: colour: Unexpected keyword argument"),
        (feedback_text(value="1.0"), "value: Input should be a valid number"),
        (feedback_text(value=True), "value: Input should be a valid number"),
        (feedback_text(metric=None), "metric: Input should be a valid string"),
        (
            feedback_text(subject_kind="agent"),
            "subject_kind: Input should be 'trajectory', 'decision', 'episode' or 'task', got 'agent'",
        ),
        (feedback_text(value=None, id=3), "id: .*; value: "),
        ('{"kind":"Feedback","version":1,"record":{}}', "id: Field required; subject_kind: Field required"),
        ('{"kind":"Task","version":1,"record":{}}', "expected a Feedback, got kind 'Task'"),
        ('{"kind":"Feedback","version":2,"record":{}}', "record version 2 is not readable; this Upturn reads 1"),
        ('{"kind":"Feedback","record":{}}', "got other keys"),
        ('{"kind":"Feedback","version":1,"record":{},"more":1}', "got other keys"),
        ("[1]", "got other keys"),
        ("{", "not JSON"),
    ],
)
def test_invalid_text_is_rejected_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        from_json(Feedback, text)


def test_old_decision_without_agent_gets_its_agent() -> None:
    decision = Decision("d", "t", "mail", "acme", "uniform", "", (), "team@north", "team@north@2", 0.5, "drew it")
    envelope = json.loads(to_json(decision))
    del envelope["record"]["agent"]
    assert from_json(Decision, json.dumps(envelope)) == decision


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity_are_rejected_when_read(constant: str) -> None:
    line = to_json(Result("r", 1.5))
    for field in ('"value":1.5', '"low":null'):
        name = field.partition(":")[0]
        with pytest.raises(RecordError):
            from_json(Result, line.replace(field, f"{name}:{constant}"))
        with pytest.raises(RecordError):
            from_fields(Result, fields_json(Result("r", 1.5)).replace(field, f"{name}:{constant}"))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_rejected_when_written(value: float) -> None:
    with pytest.raises(RecordError, match="value"):
        to_json(replace(FEEDBACK, value=value))
    nested = Action("mail", "send", {"weights": [1.0, {"deep": value}]})
    with pytest.raises(RecordError, match="parameters"):
        fields_json(Turn(Observation("hi"), "send", nested))


def test_text_that_is_not_unicode_is_rejected_when_written() -> None:
    with pytest.raises(RecordError, match="this Observation cannot be written as JSON"):
        to_json(Observation("half a pair: \ud800"))


def test_names_that_are_not_unicode_are_rejected_when_written() -> None:
    invalid: tuple[dict[str, JsonValue], ...] = ({"\ud800": 1}, {"x": [{"\ud800": 1}]})
    for parameters in invalid:
        with pytest.raises(RecordError, match="this Action cannot be written as JSON: a name in it is not Unicode"):
            fields_json(Action("mail", "send", parameters))
    action = Action("mail", "send", {"\ufffd": "\ufffd"})
    assert from_json(Action, to_json(action)) == action


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (Action(5, "send"), "target"),  # type: ignore[arg-type]
        (Action("mail", "send", ["x"]), "parameters"),  # type: ignore[arg-type]
        (Action("mail", "send", {"x": (1, 2)}), "parameters"),  # type: ignore[dict-item]
        (Action("mail", "send", {"x": b"bytes"}), "parameters"),  # type: ignore[dict-item]
        (Action("mail", "send", {"x": {1: 2}}), "parameters"),  # type: ignore[dict-item]
        (Turn(Observation("hi"), "send", None, reward="1"), "reward"),  # type: ignore[arg-type]
    ],
)
def test_unreadable_values_are_rejected_when_written(record: object, message: str) -> None:
    with pytest.raises(RecordError, match=f"cannot be written as JSON: .*{message}"):
        fields_json(record)


def test_text_containing_nan_and_infinity_round_trips() -> None:
    observation = Observation("NaN, Infinity and -Infinity")
    assert from_json(Observation, to_json(observation)) == observation


def test_missing_reward_component_stays_missing() -> None:
    evaluation = Evaluation("e", "t", "j", "office/1", "missing", (), {"success": None}, {}, None)
    assert from_json(Evaluation, to_json(evaluation)).rewards == {"success": None}
    assert not evaluation.is_success


def test_version_is_written() -> None:
    assert json.loads(to_json(FEEDBACK))["version"] == RECORD_VERSION
