"""Digests of conversations."""

from upturn.dialects import (
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    answered_digest,
    conversation_digests,
    message_digest,
    tools_digest,
)

QUESTION = Message("user", (Text("What is 2 + 2?"),))
ANSWER = (Text("4"),)


def test_a_digest_covers_all_messages_up_to_its_own() -> None:
    later = Message("user", (Text("And 3 + 3?"),))
    first, second, third = conversation_digests([QUESTION, Message("assistant", ANSWER), later], "a")
    assert len({first, second, third}) == 3
    assert conversation_digests([QUESTION], "a") == [first]
    assert answered_digest(first, ANSWER) == second


def test_equal_conversations_of_different_scopes_differ() -> None:
    assert conversation_digests([QUESTION], "tenant-a\0") != conversation_digests([QUESTION], "tenant-b\0")


def test_arguments_are_compared_parsed_and_thoughts_ids_and_outer_blanks_are_left_out() -> None:
    written = (Reasoning("hm", "signature"), Text("Let me look. "), ToolCall("call_1", "find", '{"b": 1, "a": 2}'))
    sent_back = (Text("Let me look."), ToolCall("other", "find", '{"a":2.0,"b":1}'))
    in_text = (Text("<think>\nhm\n</think>\n\nLet me look."), ToolCall("", "find", '{"b": 1, "a": 2}'))
    start = conversation_digests([QUESTION], "")[0]
    assert answered_digest(start, written) == answered_digest(start, sent_back)
    assert answered_digest(start, written) == answered_digest(start, in_text)


def test_a_message_has_one_digest_wherever_it_stands() -> None:
    assert message_digest(QUESTION) == message_digest(Message("user", (Text("What is "), Text("2 + 2?\n"))))
    assert message_digest(QUESTION) != message_digest(Message("system", QUESTION.parts))


def test_tools_in_another_order_are_the_same_tools() -> None:
    find = ToolDefinition("find", "Finds.", {"type": "object", "properties": {"a": {"type": "string"}}})
    same = ToolDefinition("find", "Finds. ", {"properties": {"a": {"type": "string"}}, "type": "object"})
    seek = ToolDefinition("seek")
    assert tools_digest((find, seek)) == tools_digest((seek, same))
    assert len({tools_digest(tools) for tools in ((find, seek), (find,), (seek,), ())}) == 4


def test_what_was_said_matters() -> None:
    start = conversation_digests([QUESTION], "")[0]
    answers: list[tuple[Part, ...]] = [
        (Text("4"),),
        (Text("5"),),
        (ToolCall("1", "find", '{"a": 1}'),),
        (ToolCall("1", "find", '{"a": 2}'),),
        (ToolCall("1", "seek", '{"a": 1}'),),
        (ToolCall("1", "find", "not JSON"),),
        (Image("image/png", "AAAA"),),
        (ToolResult("1", (Text("4"),)),),
        (ToolResult("1", (Text("4"),), is_error=True),),
        (Text("4"), ToolCall("1", "find", '{"a": 1}')),
    ]
    assert len({answered_digest(start, parts) for parts in answers}) == len(answers)


def test_text_cannot_imitate_a_call() -> None:
    start = conversation_digests([QUESTION], "")[0]
    assert answered_digest(start, (Text("call find{}"),)) != answered_digest(start, (ToolCall("1", "find", "{}"),))
