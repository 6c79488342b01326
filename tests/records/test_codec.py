"""Every record round-trips through JSON; invalid text is refused with the reason."""

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
    found
    for name in records.__all__
    if isinstance(found := getattr(records, name), type) and hasattr(found, "__pydantic_config__")
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
    """Values of a field's type; built here because hypothesis does not know the recursive JsonValue."""
    if annotation is JsonValue:
        return JSON
    if annotation in SCALARS:
        return SCALARS[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of([any_value(each) for each in arguments])
    if origin is tuple:
        return st.lists(any_value(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(TEXT, any_value(arguments[1]), max_size=2)
    return any_record(annotation)


def any_record(cls: Any) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{name: any_value(annotation) for name, annotation in get_type_hints(cls).items()})


def test_all_records_are_found() -> None:
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
    back = from_json(Feedback, to_json(Feedback("f", "decision", "d", "m", value)))
    assert back.value == value
    assert math.copysign(1, back.value) == math.copysign(1, value)


def test_true_and_one_keep_their_types() -> None:
    task = Task("t", "do", "mail", "office", context={"flag": True, "count": 1, "share": 1.0, "none": None})
    context = from_json(Task, to_json(task)).context
    assert [type(value) for value in context.values()] == [bool, int, float, NoneType]


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_records_are_frozen_and_slotted(cls: Any) -> None:
    record = _first_example(cls)
    name = next(iter(get_type_hints(cls)))
    with pytest.raises(FrozenInstanceError):
        setattr(record, name, getattr(record, name))
    assert not hasattr(record, "__dict__")


def _first_example(cls: Any) -> Any:
    """The plainest record of the class."""
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
        return {} if origin is Mapping else _first_example(annotation)

    return cls(**{name: value(annotation) for name, annotation in get_type_hints(cls).items()})


FEEDBACK = Feedback("f", "decision", "d", "thumbs", 1.0)


def changed(**changes: Any) -> str:
    envelope = json.loads(to_json(FEEDBACK))
    envelope["record"] |= changes
    return json.dumps(envelope)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(colour="red"), "not a Feedback: colour: Unexpected keyword argument"),
        (changed(value="1.0"), "value: Input should be a valid number"),
        (changed(value=True), "value: Input should be a valid number"),
        (changed(metric=None), "metric: Input should be a valid string"),
        (
            changed(subject_kind="task"),
            "subject_kind: Input should be 'trajectory', 'decision' or 'episode', got 'task'",
        ),
        (changed(value=None, id=3), "id: .*; value: "),
        ('{"kind":"Feedback","version":1,"record":{}}', "id: Field required; subject_kind: Field required"),
        ('{"kind":"Task","version":1,"record":{}}', "expected a Feedback, got kind 'Task'"),
        ('{"kind":"Feedback","version":2,"record":{}}', "record version 2 is not readable; this Upturn reads 1"),
        ('{"kind":"Feedback","record":{}}', "got other keys"),
        ('{"kind":"Feedback","version":1,"record":{},"more":1}', "got other keys"),
        ("[1]", "got other keys"),
        ("{", "not JSON"),
    ],
)
def test_invalid_text_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        from_json(Feedback, text)


def test_an_old_decision_without_agent_is_read_with_its_agent() -> None:
    decision = Decision("d", "t", "mail", "acme", "uniform", "", (), "team@north", "team@north@2", 0.5, "drew it")
    envelope = json.loads(to_json(decision))
    del envelope["record"]["agent"]
    assert from_json(Decision, json.dumps(envelope)) == decision


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity_are_refused_when_read(constant: str) -> None:
    line = to_json(Result("r", 1.5))
    for field in ('"value":1.5', '"low":null'):
        name = field.partition(":")[0]
        with pytest.raises(RecordError):
            from_json(Result, line.replace(field, f"{name}:{constant}"))
        with pytest.raises(RecordError):
            from_fields(Result, fields_json(Result("r", 1.5)).replace(field, f"{name}:{constant}"))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused_when_written(value: float) -> None:
    with pytest.raises(RecordError, match="value"):
        to_json(replace(FEEDBACK, value=value))
    nested = Action("mail", "send", {"weights": [1.0, {"deep": value}]})
    with pytest.raises(RecordError, match="parameters"):
        fields_json(Turn(Observation("hi"), "send", nested))


def test_text_that_is_not_unicode_is_refused_when_written() -> None:
    with pytest.raises(RecordError, match="this Observation cannot be written as JSON"):
        to_json(Observation("half a pair: \ud800"))


def test_names_that_are_not_unicode_are_refused_when_written() -> None:
    broken: tuple[dict[str, JsonValue], ...] = ({"\ud800": 1}, {"x": [{"\ud800": 1}]})
    for parameters in broken:
        with pytest.raises(RecordError, match="this Action cannot be written as JSON: a name in it is not Unicode"):
            fields_json(Action("mail", "send", parameters))
    shown = Action("mail", "send", {"\ufffd": "\ufffd"})
    assert from_json(Action, to_json(shown)) == shown


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
def test_unreadable_values_are_refused_when_written(record: object, message: str) -> None:
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
