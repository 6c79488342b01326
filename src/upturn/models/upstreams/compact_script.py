"""Conversations in the compact grammar: ``<|task|>first message<|act|>answer<|end|><|obs|>next message<|act|>``.

A conversation that goes on begins with the tokens of its earlier prompts and answers; one with answers that are not
remembered is written from their texts. The system prompt stands before the first message. The grammar lists no
tools: a line that is a call of an offered tool is answered as a call, every other line as text. A message ``error
CODE: text`` is read as an error observation, which the grammar marks: clients have no other way to say so in chat.
"""

import json
import re
from collections.abc import Sequence
from copy import copy
from itertools import takewhile

from upturn.dialects import (
    Message,
    ModelAnswer,
    ModelRequest,
    RequestError,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    json_object,
)
from upturn.errors import RecordError
from upturn.models.call import write_call
from upturn.models.calls import PLAIN_NAME, FunctionNames, typed_arguments
from upturn.models.renderer import GLUE, CompactRenderer
from upturn.models.template_messages import plain_text
from upturn.models.upstreams.fork_cause import Fork
from upturn.models.upstreams.memory import Memory
from upturn.models.upstreams.script import Prompt, Written, before_stop, call_id, checked, may_call, offered
from upturn.records import Action, Observation, Turn

_NAMES = FunctionNames((), PLAIN_NAME)
_ERROR = re.compile(r"error (?P<code>[a-z][a-z0-9_]*)(?:: (?P<text>.*))?", re.DOTALL)
"""An error observation as other models read it."""


class CompactScript:
    """The compact grammar, and the conversations that its model has answered."""

    def __init__(self, renderer: CompactRenderer, system: str) -> None:
        """``system``: the agent's prompt, for conversations without one."""
        self._renderer = renderer
        self._system = system
        self._memory = Memory()

    def fresh(self) -> "CompactScript":
        """Another with the same renderer."""
        script = copy(self)
        script._memory = Memory()
        return script

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The grammar's end token."""
        return self._renderer.stop_ids

    @property
    def forks(self) -> Sequence[Fork]:
        """Of the latest answers."""
        return self._memory.forks

    def prompt(self, request: ModelRequest) -> Prompt:
        """The conversation; raises RequestError for one without a message of the user, and for images."""
        if not any(message.role == "user" for message in request.messages):
            raise RequestError("messages has no message of the user", field="messages")
        start = self._memory.start(request)
        if start.known is None:
            return Prompt(self._written(start.asked.messages), start)
        later = _observation(start.asked.messages[len(start.known.messages) :])
        return Prompt((*start.known.token_ids, *self._renderer.extend(later)), start)

    def remember(self, prompt: Prompt, token_ids: Sequence[int], request: ModelRequest) -> None:
        """Keeps the answer."""
        self._memory.add(prompt.start, self.read(token_ids, request).parts, (*prompt.token_ids, *token_ids))

    def read(self, token_ids: Sequence[int], request: ModelRequest) -> Written:
        """A call of an offered tool, or the line as text, without the joiner before a word that is not there."""
        output = self._renderer.read(token_ids)
        is_ended = bool(token_ids) and token_ids[-1] in self.stop_ids
        if may_call(request) and output.action is not None:
            tool = _called(request.tools, output.action)
            if tool is not None:
                typed = typed_arguments(output.action.parameters, offered(tool, "", tool.name))
                call = ToolCall(call_id(request, token_ids, 0), tool.name, json.dumps(typed, ensure_ascii=False))
                return Written((call,), "tool_calls")
        cut = None if is_ended else before_stop(output.text, request)
        text = output.text.rstrip(GLUE) if cut is None else cut
        return Written((Text(text),), "stop" if is_ended or cut is not None else "length")

    def write(self, prompt: Prompt, answer: ModelAnswer, request: ModelRequest) -> tuple[int, ...]:  # noqa: ARG002
        """The answer's line; thoughts are left out."""
        token_ids = self._renderer.write_text(_line(Message("assistant", answer.parts)))
        return checked(self, token_ids, answer, request)

    def is_readable_early(self, token_ids: Sequence[int], request: ModelRequest) -> bool:  # noqa: ARG002
        """Not with tools, whose calls are text."""
        return not may_call(request)

    def _written(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The ids of a conversation from its texts."""
        opening = list(takewhile(lambda message: message.role == "system", messages))
        system = "\n".join(map(plain_text, opening)) or self._system
        turns: list[Turn] = []
        said: list[Message] = []
        for message in messages[len(opening) :]:
            if message.role == "assistant":
                turns.append(Turn(_observation(said, is_first=not turns), _line(message), None))
                said = []
            else:
                said.append(message)
        if not turns:
            return self._renderer.open(_observation(said, is_first=True), system)
        return self._renderer.rerender(turns, observation=_observation(said), prompt=system)


def _observation(messages: Sequence[Message], *, is_first: bool = False) -> Observation:
    """The messages as one observation; an error where their first part says so, or is the result of a call that
    failed."""
    texts = [
        plain_text(Message("tool", part.parts)) if isinstance(part, ToolResult) else part.text
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResult | Text)
    ]
    first = messages[0].parts[:1] if messages else ()
    failed = any(isinstance(part, ToolResult) and part.is_error for part in first)
    text = "\n".join(texts)
    if not is_first and (error := _ERROR.fullmatch(text)) is not None:
        return Observation(error["text"] or "", error["code"])
    # a tokenizer without a token for errors shows their code only
    return Observation(text, text or "error") if failed else Observation(text)


def _line(answer: Message) -> str:
    """An answer as the model would have written it."""
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    return "\n".join(filter(None, (plain_text(answer), *map(_call_line, calls))))


def _call_line(call: ToolCall) -> str:
    target, operation = _NAMES.read(call.name)
    arguments = json_object(call.arguments or "{}")
    try:
        return write_call(Action(target, operation, arguments or {}))
    except RecordError:
        return f"{call.name} {call.arguments}"


def _called(tools: Sequence[ToolDefinition], action: Action) -> ToolDefinition | None:
    """The tool that an action calls: by its name, or by its operation where the tool's name has no target and no
    other tool has that name; None = there is none."""
    names = {_NAMES.read(tool.name): tool for tool in tools}
    return names.get((action.target, action.operation)) or names.get(("", action.operation))
