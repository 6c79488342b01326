"""Recorded messages with several calls: a turn each, with the result of the call before."""

import json
from dataclasses import replace
from typing import Any

import pytest

from upturn.pool.ingestion.formats.conversation import parse_turns
from upturn.records import Action, Observation, Turn


def asked(*ids: str) -> dict[str, Any]:
    calls = [
        {"id": identity, "function": {"name": f"f{number}", "arguments": "{}"}}
        for number, identity in enumerate(ids)
    ]
    return {"role": "assistant", "content": "All.", "tool_calls": calls}


def result(text: str, identity: str | None = None) -> dict[str, Any]:
    return {"role": "tool", "content": text, **({"tool_call_id": identity} if identity else {})}


USER = {"role": "user", "content": "Go."}


@pytest.mark.parametrize(
    ("ids", "observed", "between", "final"),
    [
        ("abc", [result("A", "a"), result("B", "b"), result("C", "c")], ["A", "B"], "C"),
        ("abc", [result("C", "c"), result("A", "a"), result("B", "b")], ["A", "B"], "C"),
        ("abc", [result("A", "a"), result("C", "c"), USER], ["A", ""], "[tool]\nC\n\n[user]\nGo."),
        ("aa", [result("1", "a"), result("2", "a")], ["1"], "2"),
        (("", ""), [result("1"), result("2")], ["1"], "2"),
        ("ab", [], [""], ""),
        ("ab", [USER], [""], "Go."),
        ("a", [result("A", "a")], [], "A"),
    ],
)
def test_each_call_is_a_turn(ids: str, observed: list[dict[str, Any]], between: list[str], final: str) -> None:
    first = Turn(Observation("Go."), "All.", Action("tool", "f0"))
    later = [
        Turn(Observation(text), "", Action("tool", f"f{number}"), call=number)
        for number, text in enumerate(between, 1)
    ]
    expected = ((first, *later), Observation(final))
    messages = [USER, asked(*ids), *observed]
    parsed, end = parse_turns(json.loads(json.dumps(messages)))
    assert (tuple(replace(turn, message="") for turn in parsed), end) == expected
    turns, end = parse_turns([*messages, asked("x", "y"), result("Y", "y")])
    assert tuple(replace(turn, message="") for turn in turns[: len(later) + 1]) == (first, *later)
    assert [(turn.observation.text, turn.call) for turn in turns[len(later) + 1 :]] == [(final, 0), ("", 1)]
    assert end == Observation("Y")
