"""An agent's reply is recorded or refused at once; nothing in it raises later."""

import math
from typing import Any

import pytest

from upturn.agents import Reply
from upturn.agents.agent import recordable
from upturn.environments.action import MAX_ACTION_DEPTH, MAX_ACTION_LENGTH
from upturn.records import Action, ModelUsage, fields_json


def test_a_recordable_reply_is_copied_unchanged() -> None:
    parameters: dict[str, Any] = {"id": 3, "to": ["a", {"b": None}]}
    reply = Reply("mail.move id=3", Action("mail", "move", parameters, "think"), ModelUsage(5, 2))
    recorded = recordable(reply)
    assert recorded == reply
    parameters["to"][1]["b"] = "changed afterwards"
    assert recorded.action == Action("mail", "move", {"id": 3, "to": ["a", {"b": None}]}, "think")


@pytest.mark.parametrize(
    "action",
    [
        Action("mail", "move", {"id": math.nan}),
        Action("mail", "move", {"id": "\ud800"}),
        Action("mail", "move", {"\ud800": 1}),
        Action("mail", "move", {"id": [(1, 2)]}),  # type: ignore[list-item]
        Action("mail", "move", {"id": {None: 1}}),  # type: ignore[dict-item]
        Action("mail", "move", {"id": object()}),  # type: ignore[dict-item]
        Action("mail", "move", {"id": 10**5000}),
        Action("mail", "move", {"id": "x" * MAX_ACTION_LENGTH}),
        Action("mail", "move", ["id"]),  # type: ignore[arg-type]
        Action(None, 5),  # type: ignore[arg-type]
        "mail.move",
        3,
    ],
    ids=lambda action: type(action).__name__,
)
def test_an_unrecordable_action_becomes_none(action: Any) -> None:
    assert recordable(Reply("mail.move", action, ModelUsage(5, 2))) == Reply("mail.move", None, ModelUsage(5, 2))


def test_circular_parameters_become_none() -> None:
    circular: list[Any] = []
    circular.append(circular)
    assert recordable(Reply("x", Action("mail", "move", {"id": circular}))).action is None


@pytest.mark.parametrize(
    ("levels", "is_recorded"), [(MAX_ACTION_DEPTH, True), (MAX_ACTION_DEPTH + 1, False), (196, False)]
)
def test_too_deeply_nested_parameters_become_none(levels: int, is_recorded: bool) -> None:
    nested: Any = "x"
    for level in range(levels - 1):  # the parameters are a level themselves
        nested = [nested] if level % 2 else {"in": nested}
    action = Action("mail", "move", {"id": nested})
    assert recordable(Reply("x", action)).action == (action if is_recorded else None)


def test_an_action_subclass_is_copied_as_an_action() -> None:
    class Liar(Action):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    recorded = recordable(Reply("x", Liar("mail", "move", {"id": 1}))).action
    assert recorded is None or type(recorded) is Action


def test_non_unicode_text_is_escaped_and_not_executed() -> None:
    recorded = recordable(Reply("half a pair \ud800", Action("mail", "list")))
    assert recorded == Reply("half a pair \\ud800", None)
    assert fields_json(Action("a", "b", thought=recorded.text))


def test_an_overlong_text_is_truncated_and_not_executed() -> None:
    recorded = recordable(Reply("x" * (MAX_ACTION_LENGTH + 1), Action("mail", "list")))
    assert (len(recorded.text), recorded.action) == (MAX_ACTION_LENGTH, None)
    assert recordable(Reply("x" * MAX_ACTION_LENGTH, Action("mail", "list"))).action == Action("mail", "list")


@pytest.mark.parametrize("answer", [None, "text", Reply(None, None), Reply(b"x", None), ("text", None)])  # type: ignore[arg-type]
def test_anything_but_a_reply_is_refused(answer: Any) -> None:
    with pytest.raises(TypeError, match="must answer with a Reply that has a text"):
        recordable(answer)
