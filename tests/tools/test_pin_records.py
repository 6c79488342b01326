"""Stored evidence stays readable: names, fields and stored forms of all records are pinned."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

PINNED = Path(__file__).parent.parent / "data" / "records.json"


def test_records_are_as_pinned(load_tool: Callable[[str], ModuleType]) -> None:
    problems = load_tool("pin_records").problems(json.loads(PINNED.read_text()))
    assert problems == [], "see tools/pin_records.py for what may change and how"


def test_changes_of_a_record_are_reported(load_tool: Callable[[str], ModuleType]) -> None:
    tool = load_tool("pin_records")
    now = tool.describe()
    assert tool.problems(now) == []

    renamed = copy.deepcopy(now)
    renamed["fields"]["Task"]["colour"] = renamed["fields"]["Task"].pop("family")
    assert [problem[:15] for problem in tool.problems(renamed)] == ["fields of Task:"]

    older = copy.deepcopy(now)
    older["examples"]["Usage"].insert(0, '{"kind":"Usage","version":1,"record":{"prompt_tokens":3}}')
    assert tool.problems(older) == [], "older lines stay readable when a field with a default is added"

    gone = copy.deepcopy(now)
    gone["examples"]["Usage"].insert(0, '{"kind":"Usage","version":1,"record":{"colour":3}}')
    assert "can no longer be read" in tool.problems(gone)[0]

    fewer = copy.deepcopy(now)
    fewer["names"].append("Colour")
    assert tool.problems(fewer) == ["public name 'Colour' is missing"]
