"""Conversations by a chat template: all messages, tools and calls in the model's own format.

A conversation that goes on is not tokenised again: its prompt is the earlier prompt, the answer as it was sampled,
and what the template writes after an answer. That is read off a rendering of the whole conversation in which words
that no template contains stand in the answer's place. Where the template writes the conversation before the answer
differently now, or leaves the answer's thought out, the conversation is rendered as a whole and begins a new row.

An answer that was cut off before its end token gets one as context. Control tokens in the texts of messages are
read as plain text.
"""

import json
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

from upturn.dialects import Message, ModelAnswer, ModelRequest, Part, Reasoning, RequestError, Text, ToolCall
from upturn.errors import ModelError
from upturn.models.calls import Call, Reading, typed_arguments
from upturn.models.chat_template import THOUGHT, THOUGHT_END, ChatRenderer
from upturn.models.template import Message as Line
from upturn.models.template import Messages, unmarked_at
from upturn.models.template_messages import TemplateMessages, plain_text
from upturn.models.template_profile import call_id as template_call_id
from upturn.models.template_profile import tools_prompt
from upturn.models.upstreams.fork_cause import Fork
from upturn.models.upstreams.memory import Answered, Asked, Memory
from upturn.models.upstreams.script import Prompt, Written, before_stop, call_id, checked, may_call, offered

_SAID, _WHY, _VALUE = "Zsaid", "Zwhy", "Zvalue"
"""Words that no template contains."""


class _Output(NamedTuple):
    """A model's output, read."""

    thought: str | None
    """None = it has none."""
    text: str
    """Beside the calls."""
    calls: tuple[Call, ...]
    is_ended: bool
    """By an end token or a stop string."""


class ChatScript:
    """A chat template, and the conversations that its model has answered."""

    def __init__(self, renderer: ChatRenderer, system: str) -> None:
        """``system``: the agent's prompt, for conversations without one."""
        self.template = renderer.template
        self._renderer = renderer
        self._profile = renderer.profile
        self._system = system
        self._writer = TemplateMessages(renderer.template, renderer.profile)
        self._memory = Memory()
        shape: Messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _SAID}]
        _, _, rest = self.template.render(shape, [], is_open=False).rpartition(_SAID)
        self._begins_next = not self.template.special_ids.intersection(self.template.encode(rest))
        """Whether the token that ends a text also begins the next message."""

    def fresh(self) -> "ChatScript":
        """Another with the same renderer."""
        script = copy(self)
        script._memory = Memory()
        return script

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The template's end tokens."""
        return self._renderer.stop_ids

    @property
    def forks(self) -> Sequence[Fork]:
        """Of the latest answers."""
        return self._memory.forks

    def prompt(self, request: ModelRequest) -> Prompt:
        """The conversation as the template renders it, or what it renders after the tokens of an earlier one."""
        start = self._memory.start(request)
        messages = self._opened(start.asked)
        lines = self._writer.lines(messages)
        tools = self._writer.tools(start.asked.tools)
        text = self._render([line for part in lines for line in part], tools)
        known = start.known
        if known is None:
            return Prompt(tuple(self.template.encode(text)), start, text)
        position = len(messages) - len(start.asked.messages) + len(known.messages) - 1
        later = [line for part in lines[position + 1 :] for line in part]
        rest = self._rest(known, [line for part in lines[:position] for line in part], later, tools)
        if rest is None:
            start = start._replace(known=None, fork=Fork("template"))
            return Prompt(tuple(self.template.encode(text)), start, text)
        return Prompt((*known.token_ids, *rest), start, text)

    def remember(self, prompt: Prompt, token_ids: Sequence[int], request: ModelRequest) -> None:
        """Keeps the answer with the ids that the model gave its calls."""
        output = self._output(token_ids, request)
        ids = [template_call_id(index) if call.id is None else call.id for index, call in enumerate(output.calls)]
        answer = _parts(output, ids, [self._arguments(call, request) for call in output.calls])
        self._memory.add(prompt.start, answer, (*prompt.token_ids, *token_ids), text=prompt.text)

    def read(self, token_ids: Sequence[int], request: ModelRequest) -> Written:
        """Text, thoughts between ``<think>`` tags, and calls in the template's format."""
        output = self._output(token_ids, request)
        ids = [call_id(request, token_ids, index) for index in range(len(output.calls))]
        parts = _parts(output, ids, [self._arguments(call, request) for call in output.calls])
        return Written(parts, "tool_calls" if output.calls else "stop" if output.is_ended else "length")

    def write(self, prompt: Prompt, answer: ModelAnswer, request: ModelRequest) -> tuple[int, ...]:
        """What the template writes for the answer after the prompt; a thought only where it shows thoughts.

        Where it renders an answered conversation otherwise than its prompt, an answer without calls is its text.
        """
        said = Message("assistant", answer.parts)
        has_calls = any(isinstance(part, ToolCall) for part in answer.parts)
        end = self._profile.call_end_text if has_calls else self._profile.end_text
        lines = [line for part in self._writer.lines((*self._opened(prompt.start.asked), said)) for line in part]
        text = self._render(lines, self._writer.tools(prompt.start.asked.tools), is_open=False)
        if text.startswith(prompt.text):
            rest = text[len(prompt.text) :]
            stop = unmarked_at(rest, end, 0)
            written = (rest if stop < 0 else rest[:stop]) + end  # some write it before the next message
        elif has_calls:
            raise RequestError(
                "the chat template shows calls otherwise than the model writes them", field="messages"
            )
        else:
            written = self.template.mark(plain_text(said)) + end
        return checked(self, tuple(self.template.encode(written)), answer, request)

    def is_readable_early(self, token_ids: Sequence[int], request: ModelRequest) -> bool:
        """Not with tools, whose calls are text; for a model that thinks, only after the thought."""
        if may_call(request):
            return False
        return not self.template.mentions(THOUGHT_END) or THOUGHT_END in self.template.decode(token_ids)

    def _opened(self, asked: Asked) -> tuple[Message, ...]:
        """The messages with the agent's prompt where they have none, and tools that the template does not list."""
        has_prompt = asked.messages[0].role == "system"
        prompt = plain_text(asked.messages[0]) if has_prompt else self._system
        if asked.tools and not self._profile.lists_tools:
            tools = [offered(tool, "", tool.name) for tool in asked.tools]
            prompt = f"{prompt}\n\n{tools_prompt(tools, self._profile.calls)}".lstrip("\n")
        rest = asked.messages[1:] if has_prompt else asked.messages
        return (Message("system", (Text(prompt),)), *rest) if prompt else rest

    def _render(self, lines: Messages, tools: Sequence[Line], *, is_open: bool = True) -> str:
        try:
            return self.template.render(lines, tools, is_open=is_open)
        except ModelError as exc:
            raise RequestError(str(exc), field="messages") from exc

    def _rest(
        self, known: Answered, before: Messages, later: Messages, tools: Sequence[Line]
    ) -> tuple[int, ...] | None:
        """The ids after those of the answer; None = the template does not only append.

        ``before``, ``later``: the template's messages before and after the answer.
        """
        profile, answer = self._profile, known.messages[-1].parts
        calls = [part for part in answer if isinstance(part, ToolCall)]
        thinks = known.text.rstrip().endswith(THOUGHT) or any(isinstance(part, Reasoning) for part in answer)
        words = [f"{_VALUE}{index}" for index in range(len(calls))] or [_SAID]
        probe = self._writer.lines([Message("assistant", _probe(calls, thinks=thinks))])[0]
        text = self._render([*before, *probe, *later], tools)
        end_text, end_id = (
            (profile.call_end_text, profile.call_end_id) if calls else (profile.end_text, profile.end_id)
        )
        at = len(known.text)
        if not text.startswith(known.text):
            return None
        for word in words:
            at = text.find(word, at) + len(word)
            if at < len(known.text) + len(word):
                return None
        end = unmarked_at(text, end_text, at)
        if end < 0 or (thinks and _WHY not in text[len(known.text) : end]):
            return None
        if not calls and self.template.special_ids.intersection(self.template.encode(text[at:end])):
            return None  # another token ends the answer
        last = known.added[-1]
        gap = () if self._ends_with(last, end_id, has_calls=bool(calls)) else (end_id,)
        return (*gap, *self.template.encode_after((*gap, last)[0], text[end + len(end_text) :]))

    def _ends_with(self, token: int, expected: int, *, has_calls: bool) -> bool:
        """Whether the template's text after ``expected`` may follow the token."""
        if token == expected:
            return True
        profile = self._profile
        if token not in self.stop_ids or (not has_calls and self._begins_next):
            return False
        return profile.call_end_id == profile.end_id or (not has_calls and token != profile.call_end_id)

    def _output(self, token_ids: Sequence[int], request: ModelRequest) -> _Output:
        profile = self._profile
        is_ended = bool(token_ids) and token_ids[-1] in self.stop_ids
        text = self.template.decode(list(token_ids[:-1] if is_ended else token_ids))
        thought = None
        if THOUGHT_END in text:
            thought, _, text = text.partition(THOUGHT_END)
            thought = thought.replace(THOUGHT, "").strip()
        reading = profile.calls.read(text) if may_call(request) and is_ended else None
        if isinstance(reading, Reading) and (len(reading.calls) == 1 or profile.holds_several):
            calls = reading.calls if request.tool_choice.is_parallel else reading.calls[:1]
            return _Output(thought, reading.thought, calls, is_ended)
        cut = None if is_ended else before_stop(text, request)
        is_ended, text = (is_ended, text) if cut is None else (True, cut)
        return _Output(thought, profile.calls.plain_text(text).strip(), (), is_ended)

    def _arguments(self, call: Call, request: ModelRequest) -> str:
        """The arguments as JSON; with the types of the tool's schema where the format writes text."""
        arguments = call.arguments
        tool = next((tool for tool in request.tools if tool.name == call.name), None)
        if tool is not None and not self._profile.calls.has_types:
            arguments = typed_arguments(arguments, offered(tool, "", tool.name))
        return json.dumps(arguments, ensure_ascii=False)


def _parts(output: _Output, ids: Sequence[str], arguments: Sequence[str]) -> tuple[Part, ...]:
    parts: list[Part] = [] if output.thought is None else [Reasoning(output.thought)]
    if output.text or not output.calls:
        parts.append(Text(output.text))
    parts += [
        ToolCall(identity, call.name, written)
        for identity, call, written in zip(ids, output.calls, arguments, strict=True)
    ]
    return tuple(parts)


def _probe(calls: Sequence[ToolCall], *, thinks: bool) -> tuple[Part, ...]:
    """An answer of the same shape."""
    thought = (Reasoning(_WHY),) if thinks else ()
    written = (
        ToolCall(call.id, call.name, json.dumps({"value": f"{_VALUE}{index}"})) for index, call in enumerate(calls)
    )
    return (*thought, Text(_SAID if not calls else ""), *written)
