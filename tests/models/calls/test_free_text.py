"""Calls in the text of a model whose format is unknown; what is not surely a call is refused."""

import pytest

from upturn.models import Call, FunctionNames, Refusal, read_free_text
from upturn.records import JsonValue, Tool

TEXT: JsonValue = {"type": "string"}
TOOLS = (
    Tool("mail", "move", "Moves.", {"id": TEXT, "folder": TEXT}, ("id", "folder")),
    Tool("mail", "send", "Sends.", {"to": TEXT, "body": TEXT}, ("to", "body")),
    Tool("chat", "send", "Sends.", {"to": TEXT, "body": TEXT}, ("to", "body")),
    Tool("user", "answer", "Answers.", {"text": TEXT}, ("text",)),
    Tool("user", "finish", "Ends."),
)
NAMES = FunctionNames(TOOLS)
MOVE = ("mail.move", {"id": "m1", "folder": "x"})
FINISH: tuple[str, dict[str, object]] = ("user.finish", {})


def read(text: str) -> list[tuple[str, dict[str, object], tuple[str, ...]]] | str:
    reading = read_free_text(text, TOOLS, NAMES)
    if isinstance(reading, Refusal):
        return reading.reason
    return [(call.name, dict(call.arguments), tuple(sorted(call.repairs))) for call in reading.calls]


@pytest.mark.parametrize(
    ("text", "repairs"),
    [
        ("I file it.\nmail.move id=m1; folder=x", ()),
        ("`mail.move id=m1; folder=x`", ("fenced",)),
        ("mail.move id=m1; folder=x\nThat is all.", ("text_after",)),
        ("```\nmail.move id=m1; folder=x\n```", ()),
        ("mail_move id=m1; folder=x", ("near_name",)),
        ("mail.move(id='m1', folder='x')", ("python_call",)),
        ('Action: mail.move\nAction Input: {"id": "m1", "folder": "x"}', ("react",)),
        ("Thought: so\nAction: mail.move\nAction Input: id=m1; folder=x\nThought: done", ("react",)),
        (
            "**Action:** `MailMove`\n**Action Input:** {'id': 'm1', 'folder': 'x'}",
            ("near_name", "react", "single_quotes"),
        ),
        ("Action: mail.move id=m1; folder=x", ("react",)),
        ("Action: mail.move[id=m1; folder=x]", ("react",)),
        ('Action: mail.move(id="m1", folder="x")', ("python_call", "react")),
        ('Action: mail.move({"id": "m1", "folder": "x"})', ("react",)),
        (
            'Action:\n```json\n{"action": "move", "action_input": {"id": "m1", "folder": "x"}}\n```',
            ("fenced", "near_name", "react"),
        ),
        ('Action: {"name": "mail.move", "arguments": {"id": "m1", "folder": "x"}}', ("react",)),
        (
            'Action: mail.move\nAction Input: {"id": "m1", "folder": "x"}\nObservation: ok\nAction: user.finish',
            ("react", "text_after"),
        ),
        ('{"name": "mail.move", "arguments": {"id": "m1", "folder": "x"}}', ()),
        ('```json\n{"name": "mail.move", "arguments": {"id": "m1", "folder": "x"}}\n```', ("fenced",)),
        ('<tool_call>{"name": "mail.move", "arguments": {"id": "m1", "folder": "x"}}</tool_call>', ()),
        ('[TOOL_CALLS]mail.move[ARGS]{"id": "m1", "folder": "x"}', ()),
        ("<think>mail.send to=ann</think>\nmail.move id=m1; folder=x", ()),
        ("Action: I file it.\nmail.move id=m1; folder=x", ()),
    ],
)
def test_a_call_is_read_with_its_repairs(text: str, repairs: tuple[str, ...]) -> None:
    assert read(text) == [(*MOVE, repairs)]


def test_a_bare_value_is_the_only_parameter() -> None:
    for text in ("Action: user.answer\nAction Input: 42 mails", "Action: user.answer[42 mails]"):
        assert read(text) == [("user.answer", {"text": "42 mails"}, ("bare_value", "react"))]
    assert read("Action: mail.move\nAction Input: m1") == "bad_arguments"


def test_several_calls_are_read_in_order() -> None:
    lines = "First this.\nmail.move id=m1; folder=x\n\nuser.finish"
    assert read(lines) == [(*MOVE, ()), (*FINISH, ())]
    assert read("mail.move id=m1; folder=x\nor rather:\nuser.finish") == [(*FINISH, ())]
    react = "Action: mail.move\nAction Input: id=m1; folder=x\nAction: finish"
    assert read(react) == [(*MOVE, ("react",)), (*FINISH, ("near_name", "react"))]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Hello.", "no_call"),
        ("", "no_call"),
        ("Finish", "no_call"),
        ("I would send it: mail.send to=ann", "no_call"),
        ("Next action: I will move it.", "no_call"),
        ("Final Answer: 42", "no_call"),
        ('Action: mail.move\nAction Input: {"id": "m1", ', "unclosed"),
        ('{"name": "mail.move", "arguments": {"id": "m1"', "unclosed"),
        ('Action: mail.move\nAction Input: {"id": "m1", "id": "m2"}', "duplicate_key"),
        ("<think>mail.send to=ann", "truncated"),
        ('<tool_call>{"name": "mail.move", "arguments": {"id": "m1"}}', None),
        ("Action: " + "[" * 5000, "no_call"),
    ],
)
def test_what_is_not_surely_a_call_is_refused(text: str, reason: str | None) -> None:
    result = read(text)
    assert result == (reason or [("mail.move", {"id": "m1"}, ("unclosed",))])


def test_an_operation_of_two_tools_is_left_to_the_environment() -> None:
    assert read("Action: send\nAction Input: to=ann; body=hi") == [
        ("send", {"to": "ann", "body": "hi"}, ("react",))
    ]


def test_starts_divide_the_text() -> None:
    text = "<think>so</think>I look.\nmail.move id=m1; folder=x\nuser.finish"
    reading = read_free_text(text, TOOLS, NAMES)
    assert not isinstance(reading, Refusal)
    assert reading.thought == "so\nI look."
    assert [text[call.start :].partition("\n")[0] for call in reading.calls] == [
        "mail.move id=m1; folder=x",
        "user.finish",
    ]
    assert all(isinstance(call, Call) for call in reading.calls)
