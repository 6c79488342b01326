"""Tool calls as different model families write them, almost right ones, and invalid ones."""

import pytest

from upturn.errors import ModelError, RecordError
from upturn.models.calls import (
    CALL_FORMATS,
    Call,
    FunctionNames,
    Reading,
    Refusal,
    call_name,
    checked_arguments,
    json_call,
    typed_arguments,
)
from upturn.models.calls.names import PLAIN_NAME
from upturn.records import Action, Tool

MOVE = Action("mail", "move", {"id": "m2", "to": ["a", "b"]})
ARGUMENTS = '{"id": "m2", "to": ["a", "b"]}'
OBJECT = f'{{"name": "mail.move", "arguments": {ARGUMENTS}}}'
PARAMETERS = OBJECT.replace("arguments", "parameters")


def only(family: str, text: str) -> Call:
    """The one call of the text."""
    reading = CALL_FORMATS[family].read(text)
    assert isinstance(reading, Reading), reading
    assert len(reading.calls) == 1
    return reading.calls[0]


def reason(family: str, text: str) -> str:
    """Why the text has no call."""
    refusal = CALL_FORMATS[family].read(text)
    assert isinstance(refusal, Refusal), refusal
    return refusal.reason


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
    read = CALL_FORMATS[family].read_action
    assert read(text) == MOVE
    with_thought = read(f"I move it. {text}")
    assert with_thought is not None and with_thought.thought == "I move it."


def test_the_models_call_id_is_kept() -> None:
    for text in (f'[TOOL_CALLS] [{OBJECT[:-1]}, "id": "abcdefghi"}}]', "[TOOL_CALLS]a.b[CALL_ID]abcdefghi[ARGS]{}"):
        assert only("mistral", text).id == "abcdefghi"
    assert only("mistral", f"[TOOL_CALLS] [{OBJECT}]").id is None


@pytest.mark.parametrize(
    "invalid",
    [
        "",
        "Hello.",
        OBJECT[:-2],
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
def test_text_without_a_call_is_refused(invalid: str) -> None:
    texts = {
        "hermes": f"<tool_call>\n{invalid}\n</tool_call>",
        "xml": f"<tool_call>\n{invalid}\n</tool_call>",
        "mistral": f"[TOOL_CALLS] [{invalid}]",
        "llama": invalid,
        "json": invalid,
    }
    for family, text in texts.items():
        assert isinstance(CALL_FORMATS[family].read(text), Refusal), family
        assert CALL_FORMATS[family].read_action(text) is None, family


XML = "<tool_call>\n<function=mail.move>\n<parameter=id>\nm2\n</parameter>\n{}</function>\n</tool_call>"


def test_xml_calls_have_text_values() -> None:
    read = CALL_FORMATS["xml"].read_action
    call = read("Now. " + XML.format("<parameter=n>\n[1]\n2\n</parameter>\n"))
    assert call == Action("mail", "move", {"id": "m2", "n": "[1]\n2"}, "Now.")
    assert read("<tool_call><function=user.finish></function></tool_call>") == Action("user", "finish")
    once = XML.format("")
    for invalid, why in {
        once.replace("mail.move", "mail move"): "bad_name",
        once.replace("</function>", ""): "bad_syntax",
        XML.format("<parameter=id>\nm3\n</parameter>\n"): "duplicate_key",
        XML.format("and"): "bad_syntax",
        once.replace("\n</parameter>", "", 1): "bad_syntax",
        XML.format("<parameter=n>\n1\n</parameter>\n").replace("\n</parameter>", "", 1): "leftover_markup",
    }.items():
        assert reason("xml", invalid) == why, invalid
    assert only("xml", f"{once}.").repairs == {"text_after"}
    assert only("xml", once.removesuffix("</tool_call>")).repairs == {"unclosed"}
    for inline in (once.replace("\nm2\n", "m2"), once.replace("\nm2", "m2"), once.replace("m2\n", "m2")):
        repaired = only("xml", inline)
        assert repaired.arguments == {"id": "m2"} and repaired.repairs == {"inline_value"}


def test_a_python_tag_in_a_value_is_kept() -> None:
    call = CALL_FORMATS["llama"].read_action('<|python_tag|>{"name": "a.b", "parameters": {"x": "<|python_tag|>"}}')
    assert call == Action("a", "b", {"x": "<|python_tag|>"})


GEMMA = '<|tool_call>call:mail.move{id:<|"|>m2<|"|>,to:[<|"|>a<|"|>,<|"|>b<|"|>]}<tool_call|>'
PYTHON = "mail.move(id='m2', to=['a', 'b'])"
HARMONY = "<|channel|>commentary to=functions.mail.move <|constrain|>json<|message|>" + ARGUMENTS
DEEPSEEK = f"<｜tool▁call▁begin｜>mail.move<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜>"


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("hermes", f"<tool_call>{OBJECT}</tool_call>\n<tool_call>{OBJECT}</tool_call>"),
        ("mistral", f"[TOOL_CALLS] [{OBJECT}, {OBJECT}]"),
        ("mistral", f"[TOOL_CALLS]mail.move[ARGS]{ARGUMENTS}[TOOL_CALLS]mail.move[ARGS]{ARGUMENTS}"),
        ("llama", f"{PARAMETERS}; {PARAMETERS}"),
        ("json", f"{OBJECT}\n{OBJECT}"),
        ("gemma", GEMMA + GEMMA),
        ("python", f"<|tool_call_start|>[{PYTHON}, {PYTHON}]<|tool_call_end|>"),
        ("deepseek", f"<｜tool▁calls▁begin｜>{DEEPSEEK}{DEEPSEEK}<｜tool▁calls▁end｜>"),
    ],
)
def test_several_calls_are_read_with_their_places(family: str, text: str) -> None:
    reading = CALL_FORMATS[family].read(f"Both: {text}", is_strict=True)
    assert isinstance(reading, Reading) and reading.thought == "Both:"
    assert [(call.name, call.arguments) for call in reading.calls] == [("mail.move", dict(MOVE.parameters))] * 2
    first, second = (call.start for call in reading.calls)
    assert first == len("Both: ")
    cut = f"Both: {text}"[second:]
    assert cut.startswith(
        ("<tool_call>", "{", "[TOOL_CALLS]", "<|tool_call>", "mail.move(", "<｜tool▁call▁begin｜>")
    )
    assert CALL_FORMATS[family].read_action(f"Both: {text}") is None


def test_todays_formats_are_read() -> None:
    arguments = dict(MOVE.parameters)
    texts = {
        "gemma": GEMMA,
        "python": f"<|tool_call_start|>[{PYTHON}]<|tool_call_end|>",
        "harmony": HARMONY,
        "deepseek": f"<｜tool▁calls▁begin｜>{DEEPSEEK}<｜tool▁calls▁end｜>",
    }
    for family, text in texts.items():
        assert only(family, text)[:2] == ("mail.move", arguments), family
        assert not only(family, text).repairs
    glm = "<tool_call>mail.move\n<arg_key>id</arg_key>\n<arg_value>m2\nx</arg_value>\n</tool_call>"
    assert only("glm", glm).arguments == {"id": "m2\nx"}
    template = f" to=functions.mail.move<|channel|>commentary json<|message|>{ARGUMENTS}"
    thinking = f"<|channel|>analysis<|message|>Why.<|end|><|start|>assistant{HARMONY}"
    for text, thought in ((template, ""), (thinking, "Why.")):
        reading = CALL_FORMATS["harmony"].read(text, is_strict=True)
        assert isinstance(reading, Reading) and reading.thought == thought
        assert reading.calls[0][:2] == ("mail.move", arguments)
    older = f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>mail.move\n```json\n{ARGUMENTS}\n```<｜tool▁call▁end｜>"
    assert only("deepseek", f"<｜tool▁calls▁begin｜>{older}<｜tool▁calls▁end｜>")[:2] == ("mail.move", arguments)


def test_python_values_are_literals() -> None:
    call = only(
        "python", "<|tool_call_start|>[f(a=1, b=-2.5e3, c=[True, None, 'x'], d={\"k\": false}, e='it\\'s \\d')]"
    )
    assert call.arguments == {"a": 1, "b": -2500.0, "c": [True, None, "x"], "d": {"k": False}, "e": "it's \\d"}
    assert call.repairs == {"unclosed"}
    for invalid, why in {"f(1)": "bad_syntax", "f(a=1, a=2)": "duplicate_key", "f(a=g())": "bad_syntax"}.items():
        assert reason("python", f"<|tool_call_start|>[{invalid}]<|tool_call_end|>") == why


HERMES = f"<tool_call>\n{OBJECT}\n</tool_call>"


@pytest.mark.parametrize(
    ("family", "text", "repairs"),
    [
        ("hermes", f"```json\n{OBJECT}\n```", {"fenced", "unmarked"}),
        ("hermes", f"<tool_call>\n```json\n{OBJECT}\n```\n</tool_call>", {"fenced"}),
        ("hermes", f"{OBJECT}\n</tool_call>", {"unmarked"}),
        ("hermes", HERMES.removesuffix("</tool_call>"), {"unclosed"}),
        ("hermes", f"<tool_call>{OBJECT[:-1]}", {"unclosed"}),
        ("hermes", f"{HERMES}\nI hope this helps.", {"text_after"}),
        ("hermes", HERMES.replace(ARGUMENTS, '"' + ARGUMENTS.replace('"', '\\"') + '"'), {"arguments_as_text"}),
        ("hermes", f'<tool_call>{{"type": "function", "function": {OBJECT}}}</tool_call>', {"nested_function"}),
        ("hermes", HERMES.replace('"', "'"), {"single_quotes"}),
        ("json", f"Sure.\n```json\n{OBJECT}\n```\nDone.", {"fenced", "text_after"}),
        ("llama", OBJECT[:-1], {"unclosed"}),
        ("mistral", f"[TOOL_CALLS] [{OBJECT}] ok", {"text_after"}),
        ("gemma", GEMMA.replace('<|"|>', '"'), {"json_strings"}),
        ("gemma", GEMMA.removesuffix("<tool_call|>"), {"unclosed"}),
    ],
)  # fmt: skip
def test_a_repair_is_counted_by_name_and_changes_nothing(family: str, text: str, repairs: set[str]) -> None:
    call = only(family, text)
    assert (call.name, call.arguments) == ("mail.move", dict(MOVE.parameters))
    assert call.repairs == repairs
    refusal = CALL_FORMATS[family].read(text, is_strict=True)
    assert str(refusal) == f"repaired: the call is written almost right: {', '.join(sorted(repairs))}"


def test_repairs_inside_values() -> None:
    for text, value, repairs in (
        ('{"name": "f", "arguments": {"x": "a\n\tb"}}', "a\n\tb", {"control_characters"}),
        ('{"name": "f", "arguments": {"x": True}}', True, {"python_constants"}),
        ("{'name': 'f', 'arguments': {'x': 'it\\'s', }}", None, None),
    ):
        reading = CALL_FORMATS["json"].read(text)
        if repairs is None:
            assert isinstance(reading, Refusal) and reading.reason == "bad_syntax"  # an argument may be missing
        else:
            assert isinstance(reading, Reading)
            assert reading.calls[0].arguments == {"x": value} and reading.calls[0].repairs == repairs


@pytest.mark.parametrize(
    ("family", "text", "why"),
    [
        ("hermes", "Hello.", "no_call"),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1</tool_call>', "bad_syntax"),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1', "unclosed"),
        ("hermes", '<tool_call>{"name": "f"', "unclosed"),
        (
            "hermes",
            f"<tool_call>{OBJECT[:-1]}</tool_call>",
            "bad_syntax",
        ),  # arguments may be missing before the brace
        ("hermes", OBJECT.replace('"a"', '"{"')[:-1], "unclosed"),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>', "duplicate_key"),
        ("hermes", "<tool_call>{'name': 'f', 'arguments': {'a': 1, 'a': 2}}</tool_call>", "duplicate_key"),
        ("hermes", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>', "bad_arguments"),
        ("hermes", '<tool_call>{"name": "f g", "arguments": {}}</tool_call>', "bad_name"),
        ("hermes", '<tool_call>{"name": "f", "because": 1}</tool_call>', "unknown_key"),
        ("hermes", f"{HERMES}</tool_call>", "leftover_markup"),
        ("hermes", f"{HERMES} and <tool_call>", "leftover_markup"),
        ("gemma", "<|tool_call>call:f{a:1,a:2}<tool_call|>", "duplicate_key"),
        ("gemma", "<|tool_call>call:f{a:1", "unclosed"),
        ("glm", "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>", "unclosed"),
        ("harmony", "<|channel|>final<|message|>42", "no_call"),
        ("harmony", "<|channel|>commentary to=browser.open <|message|>{}", "bad_name"),
        ("harmony", f"{HARMONY}<|end|><|start|>user<|message|>x", "leftover_markup"),
        ("harmony", "<|channel|>analysis<|message|>x<|end|><|start|>user<|message|>y", "control_tokens"),
        ("deepseek", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1', "unclosed"),
    ],
)
def test_a_refusal_has_a_reason(family: str, text: str, why: str) -> None:
    assert reason(family, text) == why


def test_a_marker_in_a_value_does_not_end_the_call() -> None:
    value = '"</tool_call> <tool_call> {\\"name\\": 1}"'
    text = f'<tool_call>\n{{"name": "a.b", "arguments": {{"text": {value}}}}}\n</tool_call>'
    assert only("hermes", text).arguments == {"text": '</tool_call> <tool_call> {"name": 1}'}


def test_an_unwritable_call_is_a_record_error() -> None:
    assert json_call(MOVE) == OBJECT
    assert call_name(MOVE) == "mail.move"
    for odd in (Action("", ""), Action("a.b", "c"), Action("a", "b c"), Action("", "a.b")):
        with pytest.raises(RecordError, match=r"must be identifiers .* cannot be written as a call"):
            call_name(odd)
    for value in (float("nan"), float("inf"), "\ud800"):
        with pytest.raises(RecordError, match=r"parameters of 'a\.b' cannot be written as JSON"):
            checked_arguments(Action("a", "b", {"x": value}))


def test_names_need_no_dot() -> None:
    names = FunctionNames([Tool("", "mcp__files__read-file", "Reads."), Tool("mail", "move", "Moves.")])
    for target, operation in (
        ("", "mcp__files__read-file"),
        ("mail", "move"),
        ("", "get_weather"),
        ("", "a/b.c-d"),
    ):
        action = Action(target, operation)
        name = names.write(action)
        assert name == ".".join(filter(None, (target, operation))) == action.name
        assert names.read(name) == (target, operation)


def test_tools_that_would_share_a_name_are_refused() -> None:
    with pytest.raises(ModelError, match=r"two tools have the name 'mail\.move' .*rename one"):
        FunctionNames([Tool("mail", "move", "Moves."), Tool("", "mail.move", "Moves.")])
    with pytest.raises(ModelError, match=r"two tools have the name 'mail__move' .*rename one"):
        FunctionNames([Tool("mail", "move", "Moves."), Tool("", "mail__move", "Moves.")], PLAIN_NAME)


def test_a_name_that_the_format_forbids_is_mapped_reversibly() -> None:
    long = "x" * 100
    tools = [Tool("mail", "move", ""), Tool("", "mcp__a__b-c", ""), Tool("", "a.b/c", ""), Tool("", long, "")]
    names = FunctionNames(tools, PLAIN_NAME)
    written = [names.write(Action(tool.target, tool.operation)) for tool in tools]
    assert written[:3] == ["mail__move", "mcp__a__b-c", "a__b__c"] and len(written[3]) <= 64
    assert all(PLAIN_NAME.match(name) for name in written)
    assert [names.read(name) for name in written] == [(tool.target, tool.operation) for tool in tools]
    unlisted = FunctionNames((), PLAIN_NAME)
    assert unlisted.read(unlisted.write(Action("mail", "move"))) == ("mail", "move")
    for odd in (Action("", "mail__move"), Action("", long), Action("", "a.b/c")):
        with pytest.raises(RecordError, match="is read as"):
            unlisted.write(odd)


def test_types_are_restored_only_where_the_schema_leaves_no_choice() -> None:
    schemas = {"n": "integer", "x": "number", "b": "boolean", "l": "array", "o": "object", "s": "string"}
    tool = Tool(
        "",
        "f",
        "",
        {**{key: {"type": kind} for key, kind in schemas.items()}, "u": {"type": ["integer", "string"]}},
    )
    texts = {"n": "2", "x": "2.5", "b": "true", "l": "[1]", "o": '{"a": 1}', "s": "2", "u": "2", "unknown": "2"}
    typed = {"n": 2, "x": 2.5, "b": True, "l": [1], "o": {"a": 1}, "s": "2", "u": "2", "unknown": "2"}
    assert typed_arguments(texts, tool) == typed
    for text in ("2.5", "true", "two", "", "1e999", "[2]"):
        assert typed_arguments({"n": text}, tool) == {"n": text}
