"""Imported conversations in the tokens of a model: word for word, with loss on its own messages only."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from upturn.loop.rollouts import UnwritableError, imported_rows
from upturn.models import ChatRenderer, load_local, load_renderer
from upturn.models.upstreams import Script, script_for
from upturn.pool import IngestOptions, Pool, ingest
from upturn.records import TokenRow, Trajectory

Tokenizers = Callable[..., PreTrainedTokenizerFast]
Json = dict[str, Any]

FIND = {
    "type": "function",
    "function": {
        "name": "find_book",
        "description": "Finds a book.",
        "parameters": {"type": "object", "properties": {"title": {"type": "string"}, "year": {"type": "integer"}}},
    },
}


def call(title: str, **further: object) -> Json:
    return {"id": title, "function": {"name": "find_book", "arguments": json.dumps({"title": title, **further})}}


WORDS: Sequence[Json] = (
    {"role": "system", "content": "Be  brief.\n\n[user]\nNot me."},
    {"role": "user", "content": "Is <|im_end|> a\ttoken? Ünïcode 🙂"},
    {"role": "assistant", "content": "It is text  here.\n\n- one\n- two"},
    {"role": "user", "content": ""},
    {"role": "user", "content": "[system]\nfake"},
    {"role": "assistant", "content": "Bye."},
    {"role": "user", "content": "Never answered."},
)
CALLS: Sequence[Json] = (
    {"role": "user", "content": "Find Emma and Persuasion."},
    {"role": "assistant", "content": "Both.", "tool_calls": [call("Emma", year=1815), call("Persuasion")]},
    {"role": "tool", "content": "shelf 4", "tool_call_id": "Persuasion"},
    {"role": "tool", "content": "shelf 3", "tool_call_id": "Emma"},
    {"role": "user", "content": "And?"},
    {"role": "assistant", "content": None, "tool_calls": [call("Sanditon")]},
    {"role": "tool", "content": "none", "tool_call_id": "Sanditon"},
    {"role": "assistant", "content": "Emma is on shelf 3."},
)


def imported(folder: Path, messages: Sequence[Mapping[str, Any]], **extra: object) -> Trajectory:
    """The trajectory as it is read from a pool."""
    path = folder / "a.jsonl"
    path.write_text(json.dumps({"messages": messages, **extra}) + "\n")
    with Pool.open(folder / "pool.db") as pool:
        assert ingest(pool, path, IngestOptions("chat")).added == 1
        (trajectory,) = pool.trajectories(tenant="default")
    return trajectory


def written(rows: Sequence[TokenRow], decode: Callable[[list[int]], object]) -> list[str]:
    """What has loss."""
    return [str(decode(list(row.token_ids[span.start : span.stop]))) for row in rows for span in row.spans]


def script_of(tokenizer: PreTrainedTokenizerFast) -> Script:
    return script_for(ChatRenderer(tokenizer), "")


@pytest.mark.parametrize("family", ["qwen2_5", "llama3_1"])
def test_plain_chat_is_trained_word_for_word(chat_tokenizer: Tokenizers, tmp_path: Path, family: str) -> None:
    tokenizer = chat_tokenizer(family)
    end = tokenizer.eos_token
    (row,) = imported_rows(imported(tmp_path, WORDS), script_of(tokenizer))
    said = [message["content"] for message in WORDS if message["role"] == "assistant"]
    assert written([row], tokenizer.decode) == [f"{text}{end}" for text in said]
    text = str(tokenizer.decode(list(row.token_ids)))
    expected = str(tokenizer.apply_chat_template([dict(message) for message in WORDS[:6]], tokenize=False))
    expected = re.sub(r"Today Date: .*", "Today Date: 26 Jul 2024", expected)  # Llama's
    assert text == expected.rstrip("\n")
    assert [span.turn for span in row.spans] == [0, 1]
    assert row.logprobs == ()


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3"])
@pytest.mark.parametrize("is_offered", [True, False])
def test_calls_of_unknown_tools_are_trained(
    chat_tokenizer: Tokenizers, tmp_path: Path, family: str, is_offered: bool
) -> None:
    tokenizer = chat_tokenizer(family)
    offered = {"tools": [FIND]} if is_offered else {}
    rows = imported_rows(imported(tmp_path, CALLS, **offered), script_of(tokenizer))
    texts = written(rows, tokenizer.decode)
    assert len(texts) == 3
    first = texts[0]
    assert "Both." in first
    assert '{"name": "find_book", "arguments": {"title": "Emma", "year": 1815}}' in first
    assert first.index("Emma") < first.index("Persuasion")
    assert "Sanditon" in texts[1] and "shelf" not in texts[1]
    assert texts[2].endswith("Emma is on shelf 3.<|im_end|>")
    prompt = str(tokenizer.decode(list(rows[-1].token_ids)))
    assert prompt.index("shelf 3") < prompt.index("shelf 4") < prompt.index("And?") < prompt.index("none")
    assert ("Finds a book." in prompt) == is_offered


def test_nano_is_trained_word_for_word_or_refuses(tmp_path: Path) -> None:
    local = load_local("nano")
    messages: list[Json] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "move the mail"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "thanks"},
        {"role": "assistant", "content": "It is done."},
    ]
    (row,) = imported_rows(imported(tmp_path, messages), script_for(load_renderer("nano"), ""))
    assert [text.strip() for text in written([row], local.tokenizer.decode)] == [
        "done",
        "It is done.",
    ]
    assert [span.turn for span in row.spans] == [0, 1]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"content": [{"type": "image_url", "image_url": {"url": "x"}}]}, r"other than text \(image_url\)"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "no json"}}]}, "arguments of a call are no JSON"),
    ],
)
def test_what_cannot_be_given_back_is_refused_by_name(
    chat_tokenizer: Tokenizers, tmp_path: Path, answer: Json, reason: str
) -> None:
    messages: list[Json] = [{"role": "user", "content": "hi"}, {"role": "assistant", **answer}]
    with pytest.raises(UnwritableError, match=reason):
        imported_rows(imported(tmp_path, messages), script_of(chat_tokenizer("qwen2_5")))


def test_missing_results_and_thoughts_are_given_back_as_they_are(tmp_path: Path) -> None:
    from upturn.dialects import Message, Reasoning, Text, ToolCall
    from upturn.pool import transcript

    messages: list[Json] = [
        {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [call("A"), call("B")]},
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": "Yes.", "reasoning_content": "Well."},
    ]
    recorded = transcript(imported(tmp_path, messages))
    assert recorded.messages == (
        Message(
            "assistant",
            (
                Reasoning("Hm."),
                ToolCall("call_0_0", "find_book", '{"title": "A"}'),
                ToolCall("call_0_1", "find_book", '{"title": "B"}'),
            ),
        ),
        Message("user", (Text("Go on."),)),
        Message("assistant", (Reasoning("Well."), Text("Yes."))),
    )
    assert [(answer.turn, answer.before) for answer in recorded.answers] == [(0, 0), (2, 2)]
