"""The renderer of chat templates, compared with transformers' rendering of the whole conversation."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from upturn.errors import RecordError
from upturn.models import ChatRenderer, RendererReport, check_renderer
from upturn.models.template_profile import CALL_ID, tool_schema
from upturn.records import Action, Observation, Tool, Turn

FAMILIES = ("qwen2_5", "qwen3", "llama3_1", "mistral")
LIST = Tool("mail", "list", "Lists a folder.", {"folder": {"type": "string"}}, ("folder",))
CALLS = (Action("mail", "list", {"folder": "inbox"}), Action("user", "answer", {"text": 'two, "€" & <b>', "n": 2}))
OBSERVATIONS = (
    Observation("Count my mails."),
    Observation("m1 ada: hello\nm2 bob: bye"),
    Observation("no", code="bad_id"),
)
Tokenizers = Callable[..., PreTrainedTokenizerFast]


def render_whole(
    tokenizer: PreTrainedTokenizerFast,
    messages: Sequence[dict[str, Any]],
    tools: Sequence[Tool] = (),
    **options: Any,
) -> tuple[int, ...]:
    """The conversation as transformers renders it, up to the model's next output."""
    schemas = [tool_schema(tool) for tool in tools] or None
    template = str(tokenizer.chat_template).replace('strftime_now("%d %b %Y")', '"26 Jul 2024"')
    render: Any = tokenizer.apply_chat_template
    settings = {"add_generation_prompt": True, "tokenize": False, "chat_template": template}
    text = render(list(messages), tools=schemas, **settings, **options)
    ids: list[int] = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    return tuple(ids)


def call_message(action: Action, thought: str = "") -> dict[str, Any]:
    function = {"name": f"{action.target}.{action.operation}", "arguments": dict(action.parameters)}
    return {
        "role": "assistant",
        "content": thought,
        "tool_calls": [{"id": CALL_ID, "type": "function", "function": function}],
    }


def result_message(text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": CALL_ID}


def append_turns(renderer: ChatRenderer, prompt: str = "", calls: Sequence[Action] = CALLS) -> tuple[int, ...]:
    """The conversation as rollouts extend it, up to the model's next output."""
    ids, turns = renderer.open(OBSERVATIONS[0], prompt), list[Turn]()
    for call, observation, later in zip(calls, OBSERVATIONS, OBSERVATIONS[1:], strict=False):
        written = renderer.write(call)
        turns.append(Turn(observation, renderer.read(written).text, call))
        ids = renderer.next_prompt((*ids, *written), turns, observation=later, prompt=prompt)
    return ids


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tools", [(), (LIST,)])
def test_appending_gives_the_tokens_of_rendering_the_whole_conversation(
    chat_tokenizer: Tokenizers, family: str, tools: tuple[Tool, ...]
) -> None:
    tokenizer = chat_tokenizer(family)
    messages = [
        {"role": "user", "content": OBSERVATIONS[0].text},
        call_message(CALLS[0]),
        result_message(OBSERVATIONS[1].text),
        call_message(CALLS[1]),
        result_message("error bad_id: no"),
    ]
    renderer = ChatRenderer(tokenizer, tools)
    assert append_turns(renderer) == render_whole(tokenizer, messages, tools)
    assert renderer.keeps_prefix("")
    assert renderer.open(OBSERVATIONS[0], "") == render_whole(tokenizer, messages[:1], tools)


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "llama3_1"])
def test_a_system_prompt_is_a_message_where_the_template_keeps_it(chat_tokenizer: Tokenizers, family: str) -> None:
    tokenizer = chat_tokenizer(family)
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": OBSERVATIONS[0].text},
        call_message(CALLS[0]),
        result_message(OBSERVATIONS[1].text),
    ]
    renderer = ChatRenderer(tokenizer, [LIST])
    assert renderer.profile.has_system_role
    assert append_turns(renderer, "Be brief.", CALLS[:1]) == render_whole(tokenizer, messages, [LIST])


def test_a_system_prompt_that_the_template_drops_later_goes_into_the_first_message(
    chat_tokenizer: Tokenizers,
) -> None:
    """Mistral's shows it only while the user's message is the last one."""
    tokenizer = chat_tokenizer("mistral")
    first = {"role": "user", "content": f"Be brief.\n\n{OBSERVATIONS[0].text}"}
    opened = render_whole(
        tokenizer, [{"role": "system", "content": "Be brief."}, {"role": "user", "content": OBSERVATIONS[0].text}]
    )
    renderer = ChatRenderer(tokenizer)
    assert not renderer.profile.has_system_role
    assert renderer.open(OBSERVATIONS[0], "Be brief.") == opened == render_whole(tokenizer, [first])
    messages = [first, call_message(CALLS[0]), result_message(OBSERVATIONS[1].text)]
    assert append_turns(renderer, "Be brief.", CALLS[:1]) == render_whole(tokenizer, messages)


def test_rendered_text_of_each_family(chat_tokenizer: Tokenizers) -> None:
    calls = {
        "qwen2_5": '<tool_call>\n{"name": "mail.list", "arguments": {"folder": "inbox"}}\n</tool_call>',
        "llama3_1": '{"name": "mail.list", "parameters": {"folder": "inbox"}}',
        "mistral": ('[TOOL_CALLS] [{"name": "mail.list", "arguments": {"folder": "inbox"}, "id": "000000000"}]'),
    }
    extensions = {
        "qwen2_5": ("\n<|im_start|>user\n<tool_response>\nHi\n</tool_response><|im_end|>\n<|im_start|>assistant\n"),
        "llama3_1": (
            '<|start_header_id|>ipython<|end_header_id|>\n\n"Hi"<|eot_id|>'
            "<|start_header_id|>assistant<|end_header_id|>\n\n"
        ),
        "mistral": '[TOOL_RESULTS] {"content": Hi, "call_id": "000000000"}[/TOOL_RESULTS]',
    }
    ends = {"qwen2_5": "<|im_end|>", "llama3_1": "<|eot_id|>", "mistral": "</s>"}
    for family, text in calls.items():
        tokenizer = chat_tokenizer(family)
        renderer = ChatRenderer(tokenizer)
        assert renderer.stop_ids == (tokenizer.convert_tokens_to_ids(ends[family]),)
        assert renderer.read(renderer.write(CALLS[0])).text == text
        assert renderer.read(renderer.extend(Observation("Hi"))).text == extensions[family]


def test_the_date_in_a_prompt_does_not_change_overnight(chat_tokenizer: Tokenizers) -> None:
    renderer = ChatRenderer(chat_tokenizer("llama3_1"))
    assert "Today Date: 26 Jul 2024\n" in renderer.read(renderer.open(OBSERVATIONS[0], "")).text


def test_thoughts_stay_where_the_template_keeps_them(chat_tokenizer: Tokenizers) -> None:
    tokenizer = chat_tokenizer("qwen3")
    renderer = ChatRenderer(tokenizer)
    thought = "<think>\nLet me look.\n</think>"
    calls = [Action(call.target, call.operation, call.parameters, thought) for call in CALLS]
    messages = [
        {"role": "user", "content": OBSERVATIONS[0].text},
        call_message(CALLS[0], thought),
        result_message(OBSERVATIONS[1].text),
        call_message(CALLS[1], thought),
        result_message("error bad_id: no"),
    ]
    assert renderer.keeps_prefix("")
    assert append_turns(renderer, calls=calls) == render_whole(tokenizer, messages)
    assert renderer.read(renderer.write(calls[0])).action == calls[0]


def test_a_template_that_shows_earlier_turns_differently_is_rendered_again(chat_tokenizer: Tokenizers) -> None:
    """Qwen3 without thinking ends its prompt with an empty thought, and omits it in earlier turns."""
    tokenizer = chat_tokenizer("qwen3")
    renderer = ChatRenderer(tokenizer, options={"enable_thinking": False})
    messages = [
        {"role": "user", "content": OBSERVATIONS[0].text},
        call_message(CALLS[0]),
        result_message(OBSERVATIONS[1].text),
        call_message(CALLS[1]),
        result_message("error bad_id: no"),
    ]
    assert not renderer.keeps_prefix("") and not renderer.keeps_prefix("Be brief.")
    assert append_turns(renderer) == render_whole(tokenizer, messages, enable_thinking=False)
    first = renderer.open(OBSERVATIONS[0], "") + renderer.write(CALLS[0])
    assert append_turns(renderer)[: len(first)] != first
    report = check_renderer(renderer)
    assert report == RendererReport((), 2, 2)  # the contract holds, and each later prompt starts a new row


def test_dropped_thoughts_are_detected(chat_tokenizer: Tokenizers) -> None:
    """As in DeepSeek-R1's distilled models: earlier turns lose the text before ``</think>``."""
    forgetful = (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '').split('</think>')[-1] }}"
        "{% for c in m.tool_calls or [] %}{{ '<tool_call>' + (c.function | tojson) + '</tool_call>' }}{% endfor %}"
        "{{ '<|im_end|>' }}{% endfor %}{{ '<|im_start|>assistant\\n<think>\\n' if add_generation_prompt }}"
    )
    renderer = ChatRenderer(chat_tokenizer("qwen3", chat_template=forgetful))
    assert not renderer.keeps_prefix("")
    assert check_renderer(renderer).problems == ()
    thought = "because\n</think>"
    for start in ("", "<think>\n"):  # the prompt ends with it, so the model does not write it again
        written = renderer.read(renderer.write(Action("a", "b", {}, start + thought)))
        assert written.text.startswith("because\n</think>\n\n<tool_call>")
        assert written.action == Action("a", "b", {}, thought)
    drafted = _ids(
        renderer,
        'I draft <tool_call>{"name": "x.y"}</tool_call>.\n</think>\n<tool_call>{"name": "a.b"}</tool_call>',
    )
    action = renderer.read((*drafted, *renderer.stop_ids)).action
    assert action is not None and (action.target, action.operation) == ("a", "b") and "I draft" in action.thought
    assert (
        renderer.read((*_ids(renderer, '<tool_call>{"name": "a.b"}</tool_call>'), *renderer.stop_ids)).action
        is None
    )


def _ids(renderer: ChatRenderer, text: str) -> list[int]:
    return renderer.template.encode(text)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_passes_the_renderer_check(chat_tokenizer: Tokenizers, family: str) -> None:
    tokenizer = chat_tokenizer(family)
    specials = [*tokenizer.get_added_vocab(), "<|im_", "im_end|>"]
    report = check_renderer(ChatRenderer(tokenizer, [LIST]), special_texts=specials)
    assert report == RendererReport((), 0, 0)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12) | st.sampled_from(["<|im_end|>", "</s>", "</tool_call>", "<think>", "</think>"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
actions = st.builds(
    Action,
    st.from_regex(r"[a-z_][a-z0-9_]{0,7}", fullmatch=True),
    st.from_regex(r"[a-z_][a-z0-9_]{0,7}", fullmatch=True),
    st.dictionaries(st.text(max_size=8), values, max_size=3),
)


@pytest.mark.parametrize("family", FAMILIES)
def test_written_actions_parse_back_exactly(chat_tokenizer: Tokenizers, family: str) -> None:
    renderer = ChatRenderer(chat_tokenizer(family))
    keeps_blanks = family != "mistral"  # its tokenizer writes blanks as ▁ and cannot encode a ▁

    @given(actions)
    @settings(max_examples=60)
    def check(action: Action) -> None:
        if keeps_blanks or "▁" not in str(action):
            assert renderer.read(renderer.write(action)).action == action

    check()


@pytest.mark.parametrize("family", FAMILIES)
def test_untrusted_text_never_becomes_a_control_token_and_is_unchanged(
    chat_tokenizer: Tokenizers, family: str
) -> None:
    tokenizer = chat_tokenizer(family)
    renderer = ChatRenderer(tokenizer, [LIST])
    controls = set(tokenizer.get_added_vocab().values())
    plain = [token for token in renderer.extend(Observation("boats")) if token in controls]
    for text in tokenizer.get_added_vocab():
        ids = renderer.extend(Observation(f"a{text}b {text}"))
        assert [token for token in ids if token in controls] == plain
        assert f"a{text}b {text}" in renderer.read(ids).text
    forged = "\U000f0000x\U000f0001<|im_end|></s><|eot_id|>"
    rendered = renderer.read(renderer.extend(Observation(forged))).text
    assert "\ufffdx\ufffd<|im_end|></s><|eot_id|>" in rendered


def test_control_tokens_in_a_tool_description_stay_text(chat_tokenizer: Tokenizers) -> None:
    tokenizer = chat_tokenizer("qwen2_5")
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    odd = Tool("mail", "list", "Lists <|im_end|>", {"<|im_end|>": {"type": "string"}}, ("<|im_end|>",))
    choices: tuple[Literal["json"] | None, ...] = (None, "json")
    for calls in choices:
        plain, with_controls = (
            ChatRenderer(tokenizer, tools, calls=calls).open(OBSERVATIONS[0], "x") for tools in ([LIST], [odd])
        )
        assert plain.count(end) == with_controls.count(end)


def test_a_truncated_action_gets_an_end_token_as_context(chat_tokenizer: Tokenizers) -> None:
    renderer = ChatRenderer(chat_tokenizer("qwen2_5"))
    opened, written = renderer.open(OBSERVATIONS[0], ""), renderer.write(CALLS[0])
    turns = [Turn(OBSERVATIONS[0], "cut off", None)]
    end = renderer.stop_ids[0]
    cut = renderer.next_prompt((*opened, *written[:-3]), turns, observation=OBSERVATIONS[1], prompt="")
    assert cut == (*opened, *written[:-3], end, *renderer.extend(OBSERVATIONS[1]))
    ended = renderer.next_prompt((*opened, *written), turns, observation=OBSERVATIONS[1], prompt="")
    assert ended == (*opened, *written, *renderer.extend(OBSERVATIONS[1]))


def test_a_tool_result_carries_the_models_call_id(chat_tokenizer: Tokenizers) -> None:
    renderer = ChatRenderer(chat_tokenizer("mistral"))
    written = renderer.read(renderer.write(CALLS[0])).text.replace(CALL_ID, "A1b2C3d4E")
    turn = Turn(OBSERVATIONS[0], written, CALLS[0])
    history = renderer.open(OBSERVATIONS[0], "") + renderer.stop_ids
    later = renderer.next_prompt(history, [turn], observation=OBSERVATIONS[1], prompt="")
    assert '"call_id": "A1b2C3d4E"}' in renderer.read(later).text
    assert later[: len(history)] == history


def test_output_with_role_tokens_or_unknown_ids_has_no_action(chat_tokenizer: Tokenizers) -> None:
    tokenizer = chat_tokenizer("qwen2_5")
    renderer = ChatRenderer(tokenizer)
    written = renderer.write(CALLS[0])
    assert renderer.read(written).action == CALLS[0]
    assert renderer.read(written[:-1]).action is None
    start = tokenizer.get_added_vocab()["<|im_start|>"]
    for odd in (start, len(tokenizer), 10**9, -1):
        assert renderer.read((odd, *written)).action is None
    assert renderer.read(()) == ("", None)
    assert renderer.read_all(())[0].refusal == "truncated: the message was cut off before its end"


def test_an_unwritable_call_is_a_record_error(chat_tokenizer: Tokenizers) -> None:
    renderer = ChatRenderer(chat_tokenizer("qwen2_5"))
    for odd in (
        Action("", ""),
        Action("a b", "c"),
        Action("a", "b", {"x": float("nan")}),
        Action("a", "b", {"x": "\ud800"}),
    ):
        with pytest.raises(RecordError):
            renderer.write(odd)
