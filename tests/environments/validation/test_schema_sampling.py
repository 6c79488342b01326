"""Sampling of values for tools: words of texts, and bounds of schemas."""

from random import Random
from typing import Any

import pytest

from upturn.environments.validation.schema_sampling import (
    ParameterHistory,
    Vocabulary,
    shape_of,
    text_parameters,
    words_of,
)
from upturn.records import Action, Observation, Tool


def test_words_lose_punctuation_and_quoted_phrases_stay_together() -> None:
    assert words_of('reply to eve: "yes please", by 10.30 (m27*)') == [
        "reply", "to", "eve", "yes please", "by", "10.30", "m27",
    ]  # fmt: skip
    assert words_of("") == []


def test_shapes_distinguish_kinds_of_words() -> None:
    shapes = {word: shape_of(word) for word in ("m27", "e5", "Bob", "B3", "A1:B4", "2026-11-21", "été")}
    assert shapes == {
        "m27": "a9", "e5": "a9", "Bob": "Aa", "B3": "A9", "A1:B4": "A9:A9", "2026-11-21": "9-9-9", "été": "a",
    }  # fmt: skip


def test_text_parameters_lists_required_ones_first() -> None:
    properties: dict[str, Any] = {
        "note": {"type": "string"},
        "day": {"type": "string", "enum": ["mon"]},
        "id": {"type": ["string", "null"]},
        "hour": {"type": "integer"},
        "bare": {},
    }
    assert text_parameters(Tool("t", "o", "", properties, ("id",))) == ["id", "note", "bare"]


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        ({"type": "integer", "minimum": 8, "maximum": 10}, [8, 9, 10]),
        ({"type": "integer", "minimum": 100}, [100]),
        ({"type": "number", "maximum": -5}, [-5]),
        ({"type": "number", "minimum": 0.5, "maximum": 0.8}, [0.5]),
        ({"enum": ["a", 1]}, ["a", 1]),
        ({"const": 5}, [5]),
        ({"type": "boolean"}, [True, False]),
        ({"anyOf": [{"const": 1}, {"const": 2}]}, [1, 2]),
        ({"type": "array", "items": {"const": 1}}, [[1], [1, 1]]),
        ({"type": "object", "properties": {"x": {"const": 1}}}, [{"x": 1}]),
        ({"type": "null"}, [None]),
    ],
)
def test_values_fit_their_schema(schema: dict[str, Any], allowed: list[Any]) -> None:
    tool = Tool("t", "o", "", {"p": schema}, ("p",))
    vocabulary, rng = Vocabulary("some 9 words 77", ParameterHistory()), Random(0)
    drawn = [vocabulary.draw(tool, rng)["p"] for _ in range(40)]
    assert all(value in allowed for value in drawn)
    assert all(value in drawn for value in allowed)


def test_often_refused_shapes_are_excluded_and_accepted_values_recur() -> None:
    tool = Tool("mail", "read", "", {"id": {"type": "string"}}, ("id",))
    history = ParameterHistory()
    vocabulary = Vocabulary("please read m27 or m28", history)
    for _ in range(5):
        vocabulary.record(tool, Action("mail", "read", {"id": "please"}), Observation("no mail", "not_found"))
    vocabulary.record(tool, Action("mail", "read", {"id": "m27"}), Observation("hello"))
    drawn = {vocabulary.draw(tool, Random(seed))["id"] for seed in range(60)}
    assert drawn == {"m27", "m28"}
    other = Vocabulary("look at m31 and m99", history)
    assert {other.draw(tool, Random(seed))["id"] for seed in range(60)} == {"m31", "m99"}
    assert other.siblings(tool, "id", "m31") == ["m99"]
