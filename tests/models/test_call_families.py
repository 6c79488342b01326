"""Chat templates of today's families: the prompts of rollouts, thoughts, plain answers, and several calls a
message."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from upturn.errors import RecordError
from upturn.models import ChatRenderer, check_renderer
from upturn.models.template_profile import call_id, tool_schema
from upturn.records import Action, Observation, Tool, Turn

Tokenizers = Callable[..., PreTrainedTokenizerFast]

NEW = ("qwen3_coder", "ministral", "gemma4", "lfm2_5", "glm4_6", "gpt_oss", "deepseek_v3_1")
SEVERAL = ("qwen2_5", "qwen3", "qwen3_coder", "mistral", "ministral", "gemma4", "lfm2_5", "glm4_6", "deepseek_v3_1")
FORKING = {"gemma4"}
"""Its first prompt has an empty thought that later ones lack."""
LIST = Tool(
    "mail", "list", "Lists a folder.", {"folder": {"type": "string"}, "n": {"type": "integer"}}, ("folder",)
)
ANSWER = Tool("user", "answer", "Answers.", {"text": {"type": "string"}}, ("text",), text_parameter="text")
FIRST, SECOND = Action("mail", "list", {"folder": "inbox"}), Action("mail", "list", {"folder": "sent", "n": 2})
TASK, INBOX, SENT = Observation("Count."), Observation("m1 ada"), Observation("none", code="empty")


def whole(tokenizer: PreTrainedTokenizerFast, renderer: ChatRenderer, messages: Sequence[Any]) -> tuple[int, ...]:
    """The conversation as transformers renders it, up to the model's next output."""
    schemas = [tool_schema(tool, renderer.profile.names) for tool in (LIST, ANSWER)]
    template = str(tokenizer.chat_template).replace("strftime_now('%Y-%m-%d')", "'2024-07-26'")
    render: Any = tokenizer.apply_chat_template
    text = render(
        list(messages),
        tools=schemas if renderer.profile.lists_tools else None,
        add_generation_prompt=True,
        tokenize=False,
        chat_template=template,
    )
    return tuple(tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)


def is_same(family: str, tokenizer: PreTrainedTokenizerFast, ids: Sequence[int], others: Sequence[int]) -> bool:
    """Whether the ids are equal; the texts with DeepSeek, whose prompt shows control tokens of a call as text."""
    if family == "deepseek_v3_1":
        return bool(tokenizer.decode(list(ids)) == tokenizer.decode(list(others)))
    return ids == others


def without_thought(action: Action | None) -> Action | None:
    """The action without GLM's empty thought."""
    return None if action is None else replace(action, thought="")


def turns_of(renderer: ChatRenderer, message: Sequence[Action], before: Sequence[Observation]) -> list[Turn]:
    """The recorded turns of one message, answering these observations."""
    parts = renderer.write_all(message)
    return [
        Turn(observation, renderer.read(part).text, action, call=index)
        for index, (part, action, observation) in enumerate(zip(parts, message, before, strict=True))
    ]


@pytest.mark.parametrize("family", NEW)
def test_every_new_family_passes_the_renderer_check(chat_tokenizer: Tokenizers, family: str) -> None:
    tokenizer = chat_tokenizer(family)
    specials = [*tokenizer.get_added_vocab(), "<|im_", "im_end|>"]
    report = check_renderer(ChatRenderer(tokenizer, [LIST]), special_texts=specials)
    assert report.problems == ()
    assert (report.forks, report.prompted_forks) == ((1, 1) if family in FORKING else (0, 0))


@pytest.mark.parametrize("family", [family for family in NEW if family not in FORKING])
def test_appending_gives_the_tokens_of_rendering_the_whole_conversation(
    chat_tokenizer: Tokenizers, family: str
) -> None:
    tokenizer = chat_tokenizer(family)
    renderer = ChatRenderer(tokenizer, [LIST, ANSWER])
    assert renderer.keeps_prefix("")
    opened, written = renderer.open(TASK, ""), renderer.write(FIRST)
    turns = [Turn(TASK, renderer.read(written).text, FIRST)]
    prompt = renderer.next_prompt((*opened, *written), turns, observation=INBOX, prompt="")
    profile = renderer.profile
    opening = profile.opening("", "Count.", () if profile.lists_tools else (LIST, ANSWER))
    messages = [*opening, profile.call(FIRST), *profile.answers("m1 ada")]
    assert is_same(family, tokenizer, prompt, whole(tokenizer, renderer, messages))
    assert prompt[: len(opened)] == opened
    assert renderer.rerender(turns, observation=INBOX, prompt="") == prompt


@pytest.mark.parametrize("family", SEVERAL)
def test_several_calls_are_one_message_with_adjacent_parts(chat_tokenizer: Tokenizers, family: str) -> None:
    tokenizer = chat_tokenizer(family)
    renderer = ChatRenderer(tokenizer, [LIST, ANSWER])
    assert renderer.profile.holds_several
    parts = renderer.write_all((FIRST, SECOND))
    ids = tuple(token for part in parts for token in part)
    read = renderer.read_all(ids)
    assert [without_thought(part.output.action) for part in read] == [FIRST, SECOND]
    assert [part.stop for part in read] == [len(parts[0]), len(ids)]
    assert renderer.read(ids).action is None  # a reader of one call refuses
    joined = "".join(part.output.text for part in read)
    assert joined.replace(" ", "") == str(tokenizer.decode(list(ids[:-1]))).replace(" ", "")
    opened = renderer.open(TASK, "")
    turns = turns_of(renderer, (FIRST, SECOND), (TASK, INBOX))
    prompt = renderer.next_prompt((*opened, *ids), turns, observation=SENT, prompt="")
    profile = renderer.profile
    opening = profile.opening("", "Count.", () if profile.lists_tools else (LIST, ANSWER))
    messages = [*opening, profile.call(FIRST, SECOND), *profile.answers("m1 ada", "error empty: none")]
    assert is_same(family, tokenizer, prompt, whole(tokenizer, renderer, messages))
    assert renderer.rerender(turns, observation=SENT, prompt="") == prompt
    if family not in FORKING:
        assert prompt[: len(opened) + len(ids)] == (*opened, *ids)


@pytest.mark.parametrize("family", ["llama3_1", "gpt_oss"])
def test_a_template_that_holds_one_call_refuses_several_by_name(chat_tokenizer: Tokenizers, family: str) -> None:
    tokenizer = chat_tokenizer(family)
    renderer = ChatRenderer(tokenizer, [LIST])
    assert not renderer.profile.holds_several
    with pytest.raises(RecordError, match="2 calls cannot be one message: the chat template holds one"):
        renderer.write_all((FIRST, SECOND))
    if family == "llama3_1":
        call = renderer.read(renderer.write(FIRST)).text
        (part,) = renderer.read_all((*renderer.template.encode(f"{call}; {call}"), *renderer.stop_ids[:1]))
        assert part.output.action is None
        assert part.refusal == "several_calls: write one call in a message"


def test_a_thought_is_read_from_each_familys_place(chat_tokenizer: Tokenizers) -> None:
    texts = {
        "gemma4": '<|channel>thought\nWhy.<channel|><|tool_call>call:mail.list{folder:<|"|>inbox<|"|>}<tool_call|>',
        "lfm2_5": "Why.<|tool_call_start|>[mail.list(folder='inbox')]<|tool_call_end|>",
        "gpt_oss": "<|channel|>analysis<|message|>Why.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.mail__list <|constrain|>json<|message|>{"folder": "inbox"}',
    }
    for family, text in texts.items():
        renderer = ChatRenderer(chat_tokenizer(family), [LIST])
        (part,) = renderer.read_all((*renderer.template.encode(text), renderer.stop_ids[0]))
        assert part.output.action == Action("mail", "list", {"folder": "inbox"}, "Why."), family
        assert part.repairs == () and part.refusal == ""
        written = renderer.read(renderer.write(part.output.action))
        assert written.action == part.output.action and "Why." in written.text


def test_harmony_stops_at_a_call_and_not_after_its_thought(chat_tokenizer: Tokenizers) -> None:
    tokenizer = chat_tokenizer("gpt_oss")
    renderer = ChatRenderer(tokenizer, [LIST])
    assert tokenizer.convert_ids_to_tokens(list(renderer.stop_ids)) == ["<|call|>", "<|return|>"]


def test_a_result_names_the_function_where_the_template_does(chat_tokenizer: Tokenizers) -> None:
    for family, text in {
        "gpt_oss": "functions.user__answer to=assistant",
        "gemma4": "response:user.answer{",
    }.items():
        renderer = ChatRenderer(chat_tokenizer(family), [LIST, ANSWER])
        answer = Action("user", "answer", {"text": "x"})
        written = renderer.write(answer)
        turn = Turn(TASK, renderer.read(written).text, answer)
        history = (*renderer.open(TASK, ""), *written)
        prompt = renderer.next_prompt(history, [turn], observation=INBOX, prompt="")
        assert text in renderer.read(prompt[len(history) - 9 :]).text


@pytest.mark.parametrize("family", ["qwen2_5", "lfm2_5", "glm4_6", "gpt_oss", "gemma4"])
def test_a_plain_message_is_an_action_where_a_tool_takes_one(chat_tokenizer: Tokenizers, family: str) -> None:
    tokenizer = chat_tokenizer(family)
    renderer, without = ChatRenderer(tokenizer, [LIST, ANSWER]), ChatRenderer(tokenizer, [LIST])
    final = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"
    text = {"gpt_oss": f"{final}Two mails.", "glm4_6": "\n<think>Hm.</think>\nTwo mails."}.get(family, "Two mails.")
    ids = (
        *renderer.template.encode(text),
        renderer.stop_ids[1 if family in {"gpt_oss", "gemma4", "glm4_6"} else 0],
    )
    (part,) = renderer.read_all(ids)
    assert part.output.action == Action("user", "answer", {"text": "Two mails."})
    (part,) = without.read_all(ids)
    assert part.output.action is None and part.refusal == "no_call: the message calls no function"
    # where the conversation goes on, a user's message answers it
    turn = Turn(TASK, renderer.read(ids).text, renderer.read(ids).action)
    history = (*renderer.open(TASK, ""), *ids)
    prompt = renderer.next_prompt(history, [turn], observation=INBOX, prompt="")
    messages = [
        {"role": "user", "content": "Count."},
        {"role": "assistant", "content": "Two mails."},
        {"role": "user", "content": "m1 ada"},
    ]
    following = whole(tokenizer, renderer, messages)
    tail = following[-6:]
    assert prompt[-6:] == tail
    if family not in FORKING:
        assert prompt[: len(history)] == history


def test_a_glm_value_has_the_type_of_the_tools_schema(chat_tokenizer: Tokenizers) -> None:
    for family in ("glm4_6", "qwen3_coder"):
        renderer = ChatRenderer(chat_tokenizer(family), [LIST])
        assert without_thought(renderer.read(renderer.write(SECOND)).action) == SECOND
        unlisted = renderer.read(renderer.write(Action("mail", "count", {"n": 2}))).action
        assert without_thought(unlisted) == Action("mail", "count", {"n": "2"})


def test_names_without_a_dot_round_trip_in_every_family(chat_tokenizer: Tokenizers) -> None:
    tools = [LIST, Tool("", "get_weather", "Reports."), Tool("", "mcp__files__read-file", "Reads.")]
    for family in (*NEW, *SEVERAL, "llama3_1"):
        renderer = ChatRenderer(chat_tokenizer(family), tools)
        opened = renderer.read(renderer.open(TASK, "")).text
        for tool in tools:
            action = Action(tool.target, tool.operation)
            assert without_thought(renderer.read(renderer.write(action)).action) == action, family
            assert renderer.profile.names.write(action) in opened


def test_ids_of_several_calls_come_back_with_their_results(chat_tokenizer: Tokenizers) -> None:
    renderer = ChatRenderer(chat_tokenizer("mistral"), [LIST])
    text = renderer.read(renderer.write(FIRST)).text
    both = text[:-1] + ", " + text[text.index("{") : -1] + "]"
    both = both.replace(call_id(0), "aaaaaaaaa", 1).replace(call_id(0), "bbbbbbbbb", 1)
    ids = (*renderer.template.encode(both), *renderer.stop_ids)
    parts = renderer.read_all(ids)
    turns = [
        Turn(observation, part.output.text, part.output.action, call=index)
        for index, (part, observation) in enumerate(zip(parts, (TASK, INBOX), strict=True))
    ]
    prompt = renderer.next_prompt((*renderer.open(TASK, ""), *ids), turns, observation=SENT, prompt="")
    shown = renderer.read(prompt).text
    assert '{"content": m1 ada, "call_id": "aaaaaaaaa"}' in shown and '"call_id": "bbbbbbbbb"}' in shown
