"""Tool calls as different model families write them, and invalid ones."""

import pytest

from upturn.errors import RecordError
from upturn.models.call_format import CALL_FORMATS, call_name, checked_arguments, json_call
from upturn.records import Action

MOVE = Action("mail", "move", {"id": "m2", "to": ["a", "b"]})
OBJECT = '{"name": "mail.move", "arguments": {"id": "m2", "to": ["a", "b"]}}'
PARAMETERS = OBJECT.replace("arguments", "parameters")


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("hermes", f"<tool_call>\n{OBJECT}\n</tool_call>"),
        ("hermes", f"<tool_call>{OBJECT}</tool_call>\n"),
        ("hermes", f"<tool_call>{OBJECT[:-1]}, \"id\": \"x\", \"type\": \"function\"}}</tool_call>"),
        ("llama", PARAMETERS),
        ("llama", f"<|python_tag|>{PARAMETERS}\n"),
        ("llama", PARAMETERS.replace("{", "{ ", 1)),
        ("mistral", f"[TOOL_CALLS] [{OBJECT}]"),
        ("mistral", f"[TOOL_CALLS][{OBJECT}]"),
        ("mistral", f"[TOOL_CALLS] [{OBJECT[:-1]}, \"id\": \"abcdefghi\"}}]"),
        ("mistral", '[TOOL_CALLS]mail.move[ARGS]{"id": "m2", "to": ["a", "b"]}'),
        ("mistral", '[TOOL_CALLS]mail.move[CALL_ID]abcdefghi[ARGS]{"id": "m2", "to": ["a", "b"]}'),
        ("json", OBJECT),
        ("json", PARAMETERS),
    ],
)  # fmt: skip
def test_a_call_is_parsed_and_the_text_before_it_is_the_thought(family: str, text: str) -> None:
    read = CALL_FORMATS[family].read
    call = read(text)
    assert call is not None and call.action == MOVE
    with_thought = read(f"I move it. {text}")
    assert with_thought is not None and with_thought.action.thought == "I move it."


def test_the_models_call_id_is_kept() -> None:
    read = CALL_FORMATS["mistral"].read
    for text in (f'[TOOL_CALLS] [{OBJECT[:-1]}, "id": "abcdefghi"}}]', "[TOOL_CALLS]a.b[CALL_ID]abcdefghi[ARGS]{}"):
        call = read(text)
        assert call is not None and call.id == "abcdefghi"
    nameless = read(f"[TOOL_CALLS] [{OBJECT}]")
    assert nameless is not None and nameless.id is None


@pytest.mark.parametrize(
    "invalid",
    [
        "",
        "Hello.",
        OBJECT[:-1],
        f"{OBJECT} and then some",
        f"{OBJECT}{OBJECT}",
        OBJECT.replace("mail.move", "mail"),
        OBJECT.replace("mail.move", "mail.move.now"),
        OBJECT.replace("mail.move", "mail. move"),
        OBJECT.replace('"mail.move"', "7"),
        OBJECT.replace('"m2"', "NaN"),
        OBJECT.replace('"m2"', "1e999"),
        OBJECT.replace('"m2"', '"\\ud800"'),
        OBJECT.replace('"m2"', "9" * 5000),
        OBJECT.replace('"m2"', "[" * 100_000),
        OBJECT.replace('{"id": "m2", "to": ["a", "b"]}', '"id"'),
        f'{OBJECT[:-1]}, "parameters": {{}}}}',
        f'{OBJECT[:-1]}, "because": 1}}',
        f'{OBJECT[:-1]}, "name": "mail.drop"}}',
        OBJECT.replace('"id": "m2"', '"id": "m1", "id": "m2"'),
    ],
)
def test_text_without_exactly_one_call_parses_as_none(invalid: str) -> None:
    texts = {
        "hermes": f"<tool_call>\n{invalid}\n</tool_call>",
        "xml": f"<tool_call>\n{invalid}\n</tool_call>",
        "mistral": f"[TOOL_CALLS] [{invalid}]",
        "llama": invalid,
        "json": invalid,
    }
    assert texts.keys() == CALL_FORMATS.keys()
    for family, text in texts.items():
        assert CALL_FORMATS[family].read(text) is None, family


XML = "<tool_call>\n<function=mail.move>\n<parameter=id>\nm2\n</parameter>\n{}</function>\n</tool_call>"


def test_xml_calls_have_text_values() -> None:
    read = CALL_FORMATS["xml"].read
    call = read("Now. " + XML.format("<parameter=n>\n[1]\n2\n</parameter>\n"))
    assert call is not None and call.action == Action("mail", "move", {"id": "m2", "n": "[1]\n2"}, "Now.")
    empty = read("<tool_call><function=user.finish></function></tool_call>")
    assert empty is not None and empty.action == Action("user", "finish")
    once = XML.format("")
    for invalid in (
        once.replace("m2\n", "m2"),
        once.replace("mail.move", "mail"),
        once.replace("</function>", ""),
        once.removesuffix("</tool_call>"),
        XML.format("<parameter=id>\nm3\n</parameter>\n"),
        XML.format("and"),
        f"{once}.",
        f"{once}\n{once}",
    ):
        assert read(invalid) is None, invalid


def test_a_python_tag_in_a_value_is_kept() -> None:
    call = CALL_FORMATS["llama"].read('<|python_tag|>{"name": "a.b", "parameters": {"x": "<|python_tag|>"}}')
    assert call is not None and call.action == Action("a", "b", {"x": "<|python_tag|>"})


def test_two_calls_parse_as_none() -> None:
    two = {
        "hermes": f"<tool_call>{OBJECT}</tool_call>\n<tool_call>{OBJECT}</tool_call>",
        "mistral": f"[TOOL_CALLS] [{OBJECT}, {OBJECT}]",
        "llama": f"{PARAMETERS}; {PARAMETERS}",
        "json": f"{OBJECT}\n{OBJECT}",
    }
    for family, text in two.items():
        assert CALL_FORMATS[family].read(text) is None, family


def test_a_marker_in_a_value_does_not_end_the_call() -> None:
    value = '"</tool_call> <tool_call> {\\"name\\": 1}"'
    call = CALL_FORMATS["hermes"].read(
        f'<tool_call>\n{{"name": "a.b", "arguments": {{"text": {value}}}}}\n</tool_call>'
    )
    assert call is not None
    assert call.action == Action("a", "b", {"text": '</tool_call> <tool_call> {"name": 1}'})


def test_an_unwritable_call_is_a_record_error() -> None:
    assert json_call(MOVE) == OBJECT
    assert call_name(MOVE) == "mail.move"
    for odd in (Action("", ""), Action("a.b", "c"), Action("a", "b c")):
        with pytest.raises(RecordError, match=r"must be identifiers .* cannot be written as a call"):
            call_name(odd)
    for value in (float("nan"), float("inf"), "\ud800"):
        with pytest.raises(RecordError, match=r"parameters of 'a\.b' cannot be written as JSON"):
            checked_arguments(Action("a", "b", {"x": value}))
