"""Conversations that go on: with real templates, through what harnesses do to the messages between two calls."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

import pytest
from transformers import PreTrainedTokenizerFast

from upturn.dialects import (
    Message,
    ModelRequest,
    Part,
    Reasoning,
    RequestError,
    Text,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
)
from upturn.models import ChatRenderer, load_local
from upturn.models.renderer import CompactRenderer, write_parts
from upturn.models.template_profile import tool_schema
from upturn.models.upstreams import FORK_CURES, Prompt, Script
from upturn.models.upstreams.chat_script import ChatScript
from upturn.models.upstreams.compact_script import CompactScript
from upturn.records import Action, JsonValue, Observation, Tool

Tokenizers = Callable[..., PreTrainedTokenizerFast]
TEXT: JsonValue = {"type": "string"}
TOOLS = (
    Tool("", "find", "Finds mails.", {"text": TEXT, "limit": {"type": "integer"}}, ("text",)),
    Tool("", "send", "Sends a mail.", {"to": TEXT, "text": TEXT}, ("to", "text")),
)
FAMILIES = (
    "qwen2_5",
    "qwen3",
    "llama3_1",
    "mistral",
    "ministral",
    "qwen3_coder",
    "gemma4",
    "lfm2_5",
    "glm4_6",
    "gpt_oss",
    "deepseek_v3_1",
)
MOVES = {"mistral", "ministral", "gemma4"}
"""Their templates list the tools before the latest message of the user, or drop an empty thought."""


def call_ids(messages: Sequence[Message]) -> list[str]:
    """The ids of all calls."""
    return [part.id for message in messages for part in message.parts if isinstance(part, ToolCall)]


def definition(tool: Tool) -> ToolDefinition:
    function = tool_schema(tool)["function"]
    return ToolDefinition(function["name"], function["description"], function["parameters"])


@dataclass
class Attempt:
    """A conversation with a script, whose model writes what a test says; its rows, as a recorder makes them."""

    script: Script
    request: ModelRequest
    sent: list[Message] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)

    def call(self, sampled: Sequence[int], messages: Sequence[Message] | None = None) -> tuple[Part, ...]:
        """Samples an answer to the messages sent so far, or to others; returns its parts."""
        request = replace(self.request, messages=tuple(self.sent if messages is None else messages))
        prompt = self.script.prompt(request)
        self.script.remember(prompt, sampled, request)
        answer = self.script.read(sampled, request).parts
        self.prompts.append(prompt)
        row = (*prompt.token_ids, *sampled)
        extends = bool(self.rows) and prompt.token_ids[: len(self.rows[-1])] == self.rows[-1]
        self.rows[-1 if extends else len(self.rows) :] = [row]
        return answer


class Writer:
    """Writes answers in the tokens of a model."""

    def __init__(self, renderer: ChatRenderer, *, is_bytes: bool) -> None:
        """``is_bytes``: a token's text does not depend on those before."""
        self.renderer = renderer
        self.template = renderer.template
        self.is_bytes = is_bytes

    def shown(self, token_ids: Sequence[int]) -> str | list[int]:
        """The text, which does not depend on the spelling; the tokens where their text depends on those before."""
        if not self.is_bytes:
            return list(token_ids)
        text = self.template.decode(token_ids)
        # GLM's thought of no length; gpt-oss writes another end token than it reads
        return text.replace("\n<think></think>\n", "").replace("<|return|>", "<|end|>")

    def calls(self, *actions: Action) -> list[int]:
        return [token for part in write_parts(self.renderer, actions) for token in part]

    def text(self, text: str) -> list[int]:
        if self.renderer.profile.calls.name == "harmony":
            text = f"<|channel|>final<|message|>{text}"
        end = self.renderer.profile.end_id
        assert self.template.eos_id is not None
        return [*self.template.encode(text), end if end in self.renderer.stop_ids else self.template.eos_id]

    def respelled(self, token_ids: Sequence[int], random: Random) -> list[int]:
        """The same text, in part as one token for each character, as a tokenizer never writes it."""
        if not self.is_bytes:
            return list(token_ids)
        written: list[int] = []
        for token in token_ids:
            text = self.template.decode([token])
            is_text = self.template.id_of(text) is None and text.isascii() and text.isalpha()
            pieces = list(text) if is_text and random.random() < 0.5 else []
            written += [self.template.encode(piece)[0] for piece in pieces] or [token]
        return written


@cache
def writer_of(family: str, make: Tokenizers) -> Writer:
    return Writer(ChatRenderer(make(family), TOOLS), is_bytes=family != "mistral")


def resent(message: Message, random: Random, names: dict[str, str]) -> Message:
    """The message as a harness may send it back."""
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case Text() if message.role == "assistant" and not part.text and len(message.parts) > 1:
                pass
            case Text():
                middle = random.randrange(len(part.text) + 1)
                halves = [part.text[:middle], part.text[middle:]]
                halves[0] = random.choice(["", "\n", " "]) + halves[0]
                halves[1] += random.choice(["", "\n", "  "])
                parts += [Text(half) for half in halves] if random.random() < 0.5 else [Text("".join(halves))]
            case Reasoning():
                parts += [part] if random.random() < 0.5 else []
            case ToolCall():
                arguments = json.loads(part.arguments)
                keys = sorted(arguments, reverse=random.random() < 0.5)
                spaced = random.choice([(",", ":"), (", ", ": "), (" , ", " : ")])
                written = json.dumps({key: arguments[key] for key in keys}, separators=spaced)
                name = names.setdefault(part.id, random.choice([part.id, f"toolu_{random.getrandbits(40):x}"]))
                parts.append(ToolCall(name, part.name, written))
            case ToolResult():
                parts.append(replace(part, call_id=names.get(part.call_id, part.call_id)))
            case _:
                parts.append(part)
    return replace(message, parts=tuple(parts))


def relinked(message: Message, names: dict[str, str]) -> Message:
    """A new message, with the ids that the harness gave the calls."""
    parts = [
        replace(part, call_id=names.get(part.call_id, part.call_id)) if isinstance(part, ToolResult) else part
        for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


def random_answer(writer: Writer, random: Random) -> list[int]:
    several = writer.renderer.profile.holds_several
    actions = [
        Action("", "find", {"text": random.choice(["a b", "Grüße", "x1"]), "limit": random.randrange(9)}),
        Action("", "send", {"to": "bob", "text": random.choice(["Hi.", "see you at 5"])}),
    ]
    random.shuffle(actions)
    kind = random.randrange(3)
    if kind == 0:
        return writer.text(random.choice(["Sent it to Bob.", "Nothing was found", "Which one?"]))
    return writer.calls(*actions[: 2 if several and kind == 2 else 1])


def replies(answer: Sequence[Part], random: Random) -> list[Message]:
    """What the client sends after an answer: results of its calls, and sometimes a user's message."""
    calls = [part for part in answer if isinstance(part, ToolCall)]
    results = [ToolResult(call.id, (Text(random.choice(["2 mails", "error: no bob", "ok"])),)) for call in calls]
    if not results:
        return [Message("user", (Text(random.choice(["Go on.", "And Ann?"])),))]
    return (
        [Message("tool", tuple(results))] if random.random() < 0.5 else [Message("tool", (one,)) for one in results]
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_whatever_harnesses_do_to_messages_a_conversation_is_one_row(
    chat_tokenizer: Tokenizers, family: str
) -> None:
    writer = writer_of(family, chat_tokenizer)
    for seed in range(8):
        random = Random(seed)
        tools = [definition(tool) for tool in TOOLS]
        request = ModelRequest("m", (), tuple(tools))
        plain = ChatScript(writer.renderer, "")
        attempt = Attempt(plain.fresh(), request)
        attempt.sent = [Message("system", (Text("Be brief."),)), Message("user", (Text("Mail Bob."),))]
        names: dict[str, str] = {}
        unchanged, known = list(attempt.sent), 0
        for _ in range(6):
            sampled = writer.respelled(random_answer(writer, random), random)
            row = attempt.rows[-1] if attempt.rows else ()
            attempt.request = replace(request, tools=tuple(random.sample(tools, 2)))
            messages = [
                resent(message, random, names) if number < known else relinked(message, names)
                for number, message in enumerate(attempt.sent)
            ]
            known = len(messages)
            answer = attempt.call(sampled, messages)
            prompt = attempt.prompts[-1]
            first = attempt.prompts[0].start.asked.tools
            rendered = plain.fresh().prompt(replace(request, messages=tuple(unchanged), tools=first))
            if prompt.fork_cause is None:
                assert prompt.token_ids[: len(row)] == row
                assert writer.shown(prompt.token_ids) == writer.shown(rendered.token_ids)
            else:
                assert family in MOVES
                assert prompt.fork_cause == "template"
                assert prompt.token_ids == rendered.token_ids
                assert not rendered.text.startswith(attempt.prompts[-2].text)
            more = [Message("assistant", answer), *replies(answer, random)]
            attempt.sent, known = [*attempt.sent, *more], known + 1
            unchanged = [*unchanged, *more]
        assert len(attempt.rows) == 1 or family in MOVES


USER = Message("user", (Text("Mail Bob."),))
SYSTEM = Message("system", (Text("It is 10:01. Be brief."),))


@dataclass
class Begun:
    """A conversation of two answers: a call with its result, then a text."""

    attempt: Attempt
    history: list[Message]
    """With both answers."""


def begun(writer: Writer) -> Begun:
    request = ModelRequest("m", (), tuple(map(definition, TOOLS)))
    attempt = Attempt(ChatScript(writer.renderer, ""), request, [SYSTEM, USER])
    answer = attempt.call(writer.calls(Action("", "send", {"to": "bob", "text": "Hi."})))
    call = next(part for part in answer if isinstance(part, ToolCall))
    attempt.sent += [Message("assistant", answer), Message("tool", (ToolResult(call.id, (Text("ok"),)),))]
    attempt.sent.append(Message("assistant", attempt.call(writer.text("Sent it."))))
    return Begun(attempt, list(attempt.sent))


NEXT = Message("user", (Text("And Ann?"),))
CHANGES: dict[str, tuple[str, str, Callable[[list[Message]], list[Message]]]] = {
    "nothing": ("", "", lambda sent: [*sent, NEXT]),
    "clock": (
        "system_prompt",
        "'It is 10:01. Be brief.' before, 'It is 10:02. Be brief.' now, at character 10",
        lambda sent: [Message("system", (Text("It is 10:02. Be brief."),)), *sent[1:], NEXT],
    ),
    "no system prompt": ("system_prompt", "'It is 10:01. Be brief.' before", lambda sent: [*sent[1:], NEXT]),
    "edited answer": (
        "edited_history",
        "'Sent it.' before, 'Sent that.' now, at character 5",
        lambda sent: [*sent[:-1], Message("assistant", (Text("Sent that."),)), NEXT],
    ),
    "edited arguments": (
        "edited_history",
        "'send(",
        lambda sent: [
            *sent[:2],
            Message("assistant", (ToolCall("1", "send", '{"to": "ann", "text": "Hi."}'),)),
            *sent[3:],
            NEXT,
        ],
    ),
    "edited question": (
        "edited_history",
        "'Mail Bob.' before, 'Mail Bobby.' now",
        lambda sent: [sent[0], Message("user", (Text("Mail Bobby."),)), *sent[2:], NEXT],
    ),
    "edited result": (
        "edited_history",
        "'ok' before, 'done' now",
        lambda sent: [*sent[:3], Message("tool", (ToolResult(call_ids(sent)[0], (Text("done"),)),)), sent[4], NEXT],
    ),
    "compaction": (
        "shortened_history",
        "without assistant: 'send(",
        lambda sent: [*sent[:2], Message("user", (Text("Summary: a mail was sent."),)), NEXT],
    ),
    "window": ("shortened_history", "without assistant: 'send(", lambda sent: [*sent[:2], sent[4], NEXT]),
    "sub-agent": (
        "new_conversation",
        "it begins with 'Find Ann.'",
        lambda _: [Message("system", (Text("You find people."),)), Message("user", (Text("Find Ann."),))],
    ),
    "same question": ("answered_again", "", lambda sent: sent[:2]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_program_really_changed_begins_a_row_with_its_cause(chat_tokenizer: Tokenizers, change: str) -> None:
    writer = writer_of("qwen2_5", chat_tokenizer)
    cause, detail, edit = CHANGES[change]
    attempt = begun(writer).attempt
    attempt.call(writer.text("Yes."), edit(attempt.sent))
    prompt = attempt.prompts[-1]
    assert (prompt.fork_cause or "") == cause
    assert len(attempt.rows) == (2 if cause else 1)
    assert [fork.cause for fork in attempt.script.forks] == ([cause] if cause else [])
    if cause:
        request = replace(attempt.request, messages=tuple(edit(attempt.sent)))
        assert prompt.token_ids == attempt.script.fresh().prompt(request).token_ids
        assert detail in attempt.script.forks[0].detail
        assert cause in FORK_CURES


def test_other_tools_begin_a_row_and_name_the_difference(chat_tokenizer: Tokenizers) -> None:
    writer = writer_of("qwen2_5", chat_tokenizer)
    attempt = begun(writer).attempt
    find, send = attempt.request.tools
    attempt.request = replace(attempt.request, tools=(replace(find, description="Finds."), ToolDefinition("wait")))
    attempt.call(writer.text("Yes."), [*attempt.sent, NEXT])
    (fork,) = attempt.script.forks
    assert fork == ("tools", "more: wait; fewer: send; changed: find")
    # the first conversation goes on beside it
    attempt.request = replace(attempt.request, tools=(send, find))
    attempt.call(writer.text("Yes."), [*attempt.sent, NEXT])
    assert attempt.prompts[-1].fork_cause is None
    assert attempt.prompts[-1].start.asked.tools == (find, send)


def test_a_second_answer_to_the_same_conversation_begins_with_its_tokens_and_is_named(
    chat_tokenizer: Tokenizers,
) -> None:
    writer = writer_of("qwen2_5", chat_tokenizer)
    attempt = begun(writer).attempt
    row = attempt.rows[0]
    for text in ("Yes.", "No."):
        attempt.call(writer.text(text), [*attempt.sent, NEXT])
    first, second = attempt.prompts[-2:]
    assert (first.fork_cause, second.fork_cause) == (None, "answered_again")
    assert second.token_ids == first.token_ids
    assert second.token_ids[: len(row)] == row


def test_calls_at_the_same_time_are_named_also_before_their_answers(chat_tokenizer: Tokenizers) -> None:
    writer = writer_of("qwen2_5", chat_tokenizer)
    request = ModelRequest("m", (SYSTEM, USER))
    script = ChatScript(writer.renderer, "").fresh()
    first, second = script.prompt(request), script.prompt(request)
    other = script.prompt(replace(request, messages=(SYSTEM, NEXT)))
    assert [prompt.fork_cause for prompt in (first, second, other)] == [None, "answered_again", "new_conversation"]
    answer = writer.text("Yes.")
    for prompt in (first, second, other):
        script.remember(prompt, answer, request)
    assert [fork.cause for fork in script.forks] == ["answered_again", "new_conversation"]
    later = replace(request, messages=(SYSTEM, USER, Message("assistant", (Text("Yes."),)), NEXT))
    assert [script.prompt(later).fork_cause for _ in range(2)] == [None, "answered_again"]
    # the first of them failed, so the second is the one that goes on
    script.remember(script.prompt(later), answer, later)
    assert len(script.forks) == 2


def test_attempts_share_no_tokens(chat_tokenizer: Tokenizers) -> None:
    writer = writer_of("qwen2_5", chat_tokenizer)
    attempt = begun(writer).attempt
    other = attempt.script.fresh()
    request = replace(attempt.request, messages=(*attempt.sent, NEXT))
    prompt = other.prompt(request)
    assert (prompt.start.known, prompt.fork_cause) == (None, None)
    assert not other.forks
    assert attempt.script.prompt(request).start.known is not None


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_that_was_cut_off_gets_its_end_as_context(chat_tokenizer: Tokenizers, family: str) -> None:
    writer = writer_of(family, chat_tokenizer)
    request = ModelRequest("m", (USER,))
    script = ChatScript(writer.renderer, "")
    prompts = []
    for stop in (-1, None):
        fresh = script.fresh()
        prompt = fresh.prompt(request)
        sampled = writer.text("Sent it.")[:stop]
        written = fresh.read(sampled, request)
        assert written.finish == ("length" if stop else "stop")
        fresh.remember(prompt, sampled, request)
        later = replace(request, messages=(USER, Message("assistant", written.parts), NEXT))
        prompts.append(fresh.prompt(later))
    cut, whole = prompts
    assert writer.shown(cut.token_ids) == writer.shown(whole.token_ids)
    assert (cut.fork_cause is None) == (family not in {"gemma4"})


def test_thoughts_stay_in_the_row_until_the_template_drops_them(chat_tokenizer: Tokenizers) -> None:
    writer = writer_of("qwen3", chat_tokenizer)
    request = ModelRequest("m", (), tuple(map(definition, TOOLS)))
    attempt = Attempt(ChatScript(writer.renderer, ""), request, [SYSTEM, USER])
    thinking = writer.template.encode("<think>\nBob, then.\n</think>\n\n")
    answer = attempt.call([*thinking, *writer.calls(Action("", "find", {"text": "bob"}))])
    assert answer[0] == Reasoning("Bob, then.")
    result = Message("tool", (ToolResult(call_ids([Message("assistant", answer)])[0], (Text("bob@a.org"),)),))
    attempt.sent += [Message("assistant", answer[1:]), result]  # the client leaves the thought out
    answer = attempt.call([*thinking, *writer.text("Sent it.")])
    assert attempt.prompts[-1].fork_cause is None
    assert len(attempt.rows) == 1
    attempt.sent += [Message("assistant", answer[1:]), NEXT]
    attempt.call(writer.text("Yes."))
    prompt = attempt.prompts[-1]
    assert prompt.fork_cause == "template"
    assert "Bob, then." not in prompt.text
    assert prompt.token_ids == tuple(writer.template.encode(prompt.text))
    assert len(attempt.rows) == 2


def test_results_reach_the_calls_that_they_belong_to(chat_tokenizer: Tokenizers) -> None:
    writer = writer_of("mistral", chat_tokenizer)
    request = ModelRequest("m", (), tuple(map(definition, TOOLS)))
    attempt = Attempt(ChatScript(writer.renderer, ""), request, [USER])
    written = '[TOOL_CALLS] [{"name": "find", "arguments": {"text": "a"}, "id": "abcdefghi"}]'
    answer = attempt.call([*writer.template.encode(written), writer.renderer.profile.end_id])
    (identity,) = call_ids([Message("assistant", answer)])
    assert answer == (ToolCall(identity, "find", '{"text": "a"}'),)
    attempt.sent += [Message("assistant", answer), Message("tool", (ToolResult(identity, (Text("2"),)),))]
    attempt.call(writer.text("Two."))
    assert attempt.prompts[-1].fork_cause is None
    assert '"call_id": "abcdefghi"' in attempt.prompts[-1].text


COMPACT_TOOLS = (
    ToolDefinition("outlook__search", "", {"type": "object", "properties": {"limit": {"type": "integer"}}}),
    ToolDefinition("finish"),
)


@pytest.fixture(scope="module")
def compact() -> tuple[CompactScript, CompactRenderer]:
    renderer = load_local("nano").renderer()
    assert isinstance(renderer, CompactRenderer)
    return CompactScript(renderer, ""), renderer


def test_the_shipped_model_reads_a_whole_conversation(compact: tuple[CompactScript, CompactRenderer]) -> None:
    script, renderer = compact
    attempt = Attempt(script.fresh(), ModelRequest("m", (), COMPACT_TOOLS), [USER])
    search = renderer.write(Action("outlook", "search", {"query": "bob", "limit": "3"}))
    answer = attempt.call(search)
    opening = renderer.open(Observation("Mail Bob."), "")
    (identity,) = call_ids([Message("assistant", answer)])
    assert answer == (ToolCall(identity, "outlook__search", '{"query": "bob", "limit": 3}'),)
    renamed = ToolCall("toolu_1", "outlook__search", '{"limit":3,"query":"bob"}')
    attempt.sent += [Message("assistant", (renamed,)), Message("tool", (ToolResult("toolu_1", (Text("m27"),)),))]
    cut = renderer.write(Action("outlook", "open", {"id": "m27"}))[:-1]
    answer = attempt.call(cut)
    assert answer == (Text("outlook.open id=m27"),)
    attempt.sent += [Message("assistant", answer), NEXT, Message("user", (Text("Quick."),))]
    finish = renderer.write(Action("user", "finish"))
    answer = attempt.call(finish)
    (last,) = call_ids([Message("assistant", answer)])
    assert (answer, last != identity) == ((ToolCall(last, "finish", "{}"),), True)
    extend = renderer.extend
    expected = (*opening, *search, *extend(Observation("m27")), *cut)
    expected = (*expected, *extend(Observation("And Ann?\nQuick.")), *finish)
    assert attempt.rows == [expected]
    assert [prompt.fork_cause for prompt in attempt.prompts] == [None] * 3
    attempt.sent[0] = Message("user", (Text("Mail Carl."),))
    attempt.call(finish)
    assert attempt.prompts[-1].fork_cause == "edited_history"


@pytest.mark.parametrize(
    ("text", "observation"),
    [
        ("error not_found: no mail m27\nlook again", Observation("no mail m27\nlook again", "not_found")),
        ("error malformed", Observation("", "malformed")),
        ("error: it failed", Observation("error: it failed")),
        ("3 errors", Observation("3 errors")),
    ],
)
def test_the_shipped_model_reads_an_error_observation_as_agents_write_it(
    compact: tuple[CompactScript, CompactRenderer], text: str, observation: Observation
) -> None:
    script, renderer = compact
    answer, later = Message("assistant", (Text("outlook.search"),)), Message("user", (Text(text),))
    opening = (*renderer.open(Observation("Mail Bob.")), *renderer.write(Action("outlook", "search")))
    prompt = script.fresh().prompt(ModelRequest("m", (USER, answer, later)))
    assert prompt.token_ids == (*opening, *renderer.extend(observation))
    first = script.fresh().prompt(ModelRequest("m", (later,)))
    assert first.token_ids == renderer.open(Observation(text))


def test_answers_that_the_shipped_model_has_not_given_are_read_from_their_texts(
    compact: tuple[CompactScript, CompactRenderer],
) -> None:
    script, renderer = compact
    called = ToolCall("1", "outlook__search", '{"limit": 3}')
    failed = ToolResult("1", (Text("not found"),), is_error=True)
    messages = (SYSTEM, USER, Message("assistant", (Text("One moment."), called)), Message("tool", (failed,)))
    prompt = script.fresh().prompt(ModelRequest("m", messages, COMPACT_TOOLS))
    opening = renderer.open(Observation("Mail Bob."), "It is 10:01. Be brief.")
    line = renderer._encode("One moment.\noutlook.search limit=3")
    error = renderer.extend(Observation("not found", "not found"))
    assert prompt.token_ids == (*opening, *line, *renderer.stop_ids, *error)
    assert prompt.fork_cause is None


def test_calls_of_the_shipped_model_are_text_without_the_tool(
    compact: tuple[CompactScript, CompactRenderer],
) -> None:
    script, renderer = compact
    sampled = renderer.write(Action("outlook", "move", {"id": "m27"}))
    text = (Text("outlook.move id=m27"),)
    assert script.read(sampled, ModelRequest("m", (USER,), COMPACT_TOOLS)).parts == text
    assert script.read(sampled, ModelRequest("m", (USER,))).parts == text
    search = renderer.write(Action("outlook", "search"))
    silent = ModelRequest("m", (USER,), COMPACT_TOOLS, ToolChoice("none"))
    assert script.read(search, silent) == ((Text("outlook.search"),), "stop")


def test_a_conversation_without_a_message_of_the_user_is_refused(
    compact: tuple[CompactScript, CompactRenderer],
) -> None:
    with pytest.raises(RequestError, match="no message of the user"):
        compact[0].prompt(ModelRequest("m", (SYSTEM,)))
