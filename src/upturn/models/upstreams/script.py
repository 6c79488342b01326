"""How a local model reads conversations and writes answers: in the compact grammar, or by its chat template."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from upturn.dialects import (
    FinishReason,
    Image,
    Message,
    ModelAnswer,
    ModelRequest,
    Part,
    Reasoning,
    RequestError,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from upturn.errors import ModelError
from upturn.models.calls import Reading
from upturn.models.chat_template import THOUGHT, THOUGHT_END, ChatRenderer
from upturn.models.local import LocalModel
from upturn.models.renderer import GLUE, CompactRenderer, Renderer
from upturn.models.template import unmarked_at
from upturn.records import Observation

_ANSWERS = 128
"""Answers whose tokens are kept, for the calls that continue them."""
HISTORY_CHANGED = "history_changed"
"""Cause of a prompt that does not begin with the text of an earlier one and its answer."""


class Prompt(NamedTuple):
    """What a model reads."""

    token_ids: tuple[int, ...]
    text: str = ""
    """As the template renders it; empty = there is no template."""
    fork_cause: str | None = None
    """Why it does not begin with the tokens of an earlier call; None = it does, or there is no earlier call."""


class Written(NamedTuple):
    """A generation as parts of an answer."""

    parts: tuple[Part, ...]
    finish: FinishReason


class Script(Protocol):
    """How a model reads conversations and writes answers."""

    def fresh(self) -> "Script":
        """The same without what it remembers: calls of another attempt share no tokens with those of this one."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer."""

    def prompt(self, request: ModelRequest, /) -> Prompt:
        """The conversation, up to where the model writes. Raises RequestError."""

    def remember(self, prompt: Prompt, token_ids: Sequence[int], request: ModelRequest, /) -> None:
        """Takes note of the answer to a request: a prompt that extends it begins with its tokens as sampled."""

    def read(self, token_ids: Sequence[int], request: ModelRequest, /) -> Written:
        """The answer in the model's output."""

    def write(self, prompt: Prompt, answer: ModelAnswer, request: ModelRequest, /) -> tuple[int, ...]:
        """The tokens that the model would write for the answer to a request, with an end token unless the answer
        was cut off. Raises RequestError for an answer that it cannot write, or that would read back otherwise."""

    def is_readable_early(self, token_ids: Sequence[int], request: ModelRequest, /) -> bool:
        """Whether ``read`` of an output that begins so begins with the text that it has so far."""


class CompactScript:
    """The compact grammar: the user's last message, answered by one line."""

    def __init__(self, renderer: CompactRenderer, system: str) -> None:
        self._renderer = renderer
        self._system = system

    def fresh(self) -> "CompactScript":
        """Another of the same."""
        return CompactScript(self._renderer, self._system)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The grammar's end token."""
        return self._renderer.stop_ids

    def remember(self, prompt: Prompt, token_ids: Sequence[int], request: ModelRequest) -> None:
        """Nothing: a prompt holds one message."""

    def prompt(self, request: ModelRequest) -> Prompt:
        """Only the last message of the user fits into the grammar."""
        if request.tools:
            raise RequestError("this model has no tools; route requests with tools to another", field="tools")
        texts = [_plain_text(message) for message in request.messages if message.role == "user"]
        if not texts:
            raise RequestError("messages has no message of the user", field="messages")
        return Prompt(self._renderer.open(Observation(texts[-1]), self._system))

    def read(self, token_ids: Sequence[int], request: ModelRequest) -> Written:  # noqa: ARG002  as in the protocol
        """The line as text, without the joiner before a word that is not there."""
        output = self._renderer.read(token_ids)
        is_ended = bool(token_ids) and token_ids[-1] in self.stop_ids
        return Written((Text(output.text.rstrip(GLUE)),), "stop" if is_ended else "length")

    def write(self, prompt: Prompt, answer: ModelAnswer, request: ModelRequest) -> tuple[int, ...]:  # noqa: ARG002
        """The text as a line; thoughts are left out."""
        token_ids = self._renderer.write_text(_text_of(answer))
        return _checked(self, token_ids, answer, request)

    def is_readable_early(self, token_ids: Sequence[int], request: ModelRequest) -> bool:  # noqa: ARG002
        """Always."""
        return True


class ChatScript:
    """A chat template: all messages, tools and calls in the model's own format.

    A conversation that goes on is not tokenised again: where its text begins with that of an earlier prompt and its
    answer, it begins with their tokens, so that the model continues, and training sees, what was sampled. Control
    tokens in the texts of messages are read as plain text.
    """

    def __init__(self, renderer: ChatRenderer, system: str) -> None:
        self.template = renderer.template
        self._renderer = renderer
        self._system = system
        self._answered: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        """Tokens of prompts with their answers, by their text."""

    def fresh(self) -> "ChatScript":
        """Another with the same renderer."""
        return ChatScript(self._renderer, self._system)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The template's end tokens."""
        return self._renderer.stop_ids

    def prompt(self, request: ModelRequest) -> Prompt:
        """The conversation as the template renders it."""
        if request.tools and not self._renderer.profile.lists_tools:
            raise RequestError("this model's chat template lists no tools", field="tools")
        return self._prompt(self._render(request, is_open=True))

    def _render(self, request: ModelRequest, *, is_open: bool) -> str:
        messages = [
            self.template.mark(line, but=(THOUGHT, THOUGHT_END) if message.role == "assistant" else ())
            for message in request.messages
            for line in _template_lines(message)
        ]
        if self._system and request.messages[0].role != "system":
            messages.insert(0, {"role": "system", "content": self._system})
        tools = [_template_tool(tool) for tool in request.tools]
        try:
            return self.template.render(messages, self.template.mark(tools), is_open=is_open)
        except ModelError as exc:
            raise RequestError(str(exc), field="messages") from exc

    def remember(self, prompt: Prompt, token_ids: Sequence[int], request: ModelRequest) -> None:  # noqa: ARG002
        """Keeps the tokens of the last answers."""
        text = prompt.text + self.template.decode(token_ids)
        self._answered[text] = (*prompt.token_ids, *token_ids)
        self._answered.move_to_end(text)
        if len(self._answered) > _ANSWERS:
            self._answered.popitem(last=False)

    def _prompt(self, text: str) -> Prompt:
        known = max((start for start in self._answered if text.startswith(start)), key=len, default="")
        if not known:
            return Prompt(tuple(self.template.encode(text)), text, HISTORY_CHANGED if self._answered else None)
        token_ids, rest = self._answered[known], text[len(known) :]
        is_ended = token_ids[-1] in self.stop_ids
        more = self.template.encode_after(token_ids[-1], rest) if is_ended else self.template.encode(rest)
        return Prompt((*token_ids, *more), text)

    def read(self, token_ids: Sequence[int], request: ModelRequest) -> Written:
        """Text, thoughts between ``<think>`` tags, and calls in the template's format."""
        is_ended = bool(token_ids) and token_ids[-1] in self.stop_ids
        body = list(token_ids[:-1] if is_ended else token_ids)
        text = self.template.decode(body)
        parts: list[Part] = []
        if THOUGHT_END in text:
            thought, _, text = text.partition(THOUGHT_END)
            parts.append(Reasoning(thought.replace(THOUGHT, "").strip()))
        reading = self._renderer.profile.calls.read(text) if request.tools and is_ended else None
        if isinstance(reading, Reading):
            if reading.thought:
                parts.append(Text(reading.thought))
            parts += [
                ToolCall(f"call_{number}", call.name, json.dumps(call.arguments, ensure_ascii=False))
                for number, call in enumerate(reading.calls)
            ]
            return Written(tuple(parts), "tool_calls")
        parts.append(Text(self._renderer.profile.calls.plain_text(text).strip()))
        return Written(tuple(parts), "stop" if is_ended else "length")

    def write(self, prompt: Prompt, answer: ModelAnswer, request: ModelRequest) -> tuple[int, ...]:
        """What the template writes for the answer after the prompt; a thought only where it shows thoughts.

        Where it renders an answered conversation otherwise than its prompt, an answer without calls is its text.
        """
        profile, calls = self._renderer.profile, any(isinstance(part, ToolCall) for part in answer.parts)
        end = profile.call_end_text if calls else profile.end_text
        answered = replace(request, messages=(*request.messages, Message("assistant", answer.parts)))
        text = self._render(answered, is_open=False)
        if text.startswith(prompt.text):
            rest = text[len(prompt.text) :]
            stop = unmarked_at(rest, end, 0)
            written = (rest if stop < 0 else rest[:stop]) + end  # some templates write it before the next message
        elif not calls:
            written = self.template.mark(_text_of(answer)) + end
        else:
            raise RequestError(
                "the chat template shows calls otherwise than the model writes them", field="messages"
            )
        return _checked(self, tuple(self.template.encode(written)), answer, request)

    def is_readable_early(self, token_ids: Sequence[int], request: ModelRequest) -> bool:
        """Not with tools, whose calls are text; for a model that thinks, only after the thought."""
        if request.tools:
            return False
        return not self.template.mentions(THOUGHT_END) or THOUGHT_END in self.template.decode(token_ids)


def script_for(local: LocalModel, renderer: Renderer, system: str) -> Script:
    """The script of a model; ``system``: the agent's prompt, for conversations without one."""
    return script_of(renderer if isinstance(renderer, ChatRenderer) else CompactRenderer(local.tokenizer), system)


def script_of(renderer: Renderer, system: str) -> Script:
    """As ``script_for``, by the renderer alone. Raises ModelError for one that is neither a chat template's nor of
    the compact grammar."""
    if isinstance(renderer, ChatRenderer):
        return ChatScript(renderer, system)
    if isinstance(renderer, CompactRenderer):
        return CompactScript(renderer, system)
    raise ModelError(f"a {type(renderer).__name__} reads no conversations; use a model with a chat template")


def _checked(
    script: Script, token_ids: tuple[int, ...], answer: ModelAnswer, request: ModelRequest
) -> tuple[int, ...]:
    """The tokens, without the end token of an answer that was cut off; raises RequestError for another answer."""
    read = script.read(token_ids, request).parts
    if _text_of_parts(read) != _text_of(answer).strip() or _calls(read) != _calls(answer.parts):
        raise RequestError(f"the model would read its own answer as {read!r:.200}", field="messages")
    return token_ids[:-1] if answer.finish == "length" else token_ids


def _text_of(answer: ModelAnswer) -> str:
    return _text_of_parts(answer.parts)


def _text_of_parts(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Text))


def _calls(parts: Sequence[Part]) -> list[tuple[str, Any]]:
    return [(part.name, _object(part)) for part in parts if isinstance(part, ToolCall)]


def _plain_text(message: Message) -> str:
    if any(isinstance(part, Image) for part in message.parts):
        raise RequestError("this model reads no images", field="messages")
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def _template_lines(message: Message) -> list[dict[str, Any]]:
    """The message in the form that chat templates expect; one line for each result of a call."""
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if results:
        return [
            {
                "role": "tool",
                "tool_call_id": part.call_id,
                "content": "".join(inner.text for inner in part.parts if isinstance(inner, Text)),
            }
            for part in results
        ]
    line: dict[str, Any] = {"role": message.role, "content": _plain_text(message)}
    if thought := "".join(part.text for part in message.parts if isinstance(part, Reasoning)):
        line["reasoning_content"] = thought
    if calls := [part for part in message.parts if isinstance(part, ToolCall)]:
        line["tool_calls"] = [
            {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": _object(part)}}
            for part in calls
        ]
    return [line]


def _template_tool(tool: ToolDefinition) -> dict[str, Any]:
    parameters = dict(tool.parameters) or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _object(call: ToolCall) -> Any:  # Any: a JSON border
    try:
        return json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return call.arguments
