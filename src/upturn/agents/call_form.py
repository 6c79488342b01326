"""How an endpoint agent shows a conversation to its model and reads the answer: native tool calls, or text.

Both forms write a conversation from its turns alone, so a rollout may begin at another one's state, or its model
may change the form. A message with several calls is several turns (``Turn.call``), executed in order.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from upturn.agents.agent import Reply
from upturn.agents.context import observation_text
from upturn.dialects import Message, ModelAnswer, Reasoning, Text, ToolCall, ToolDefinition, ToolResult
from upturn.errors import RecordError
from upturn.models import (
    PLAIN_NAME,
    Call,
    FunctionNames,
    Reading,
    Refusal,
    call_id,
    first_message,
    read_free_text,
    read_native_call,
    tool_schema,
)
from upturn.records import Action, JsonValue, Observation, Tool, Turn

GRAMMAR = (
    "You act by writing an action as the last line of your answer: target.operation key=value; key=value\n"
    "An action without parameters is just target.operation. Escape ; = and line breaks (\\n) in values with a "
    "backslash; join lists with commas. Several actions, one a line, are carried out in order. You then see what "
    "happened, and act again until you are done."
)
"""Of the text form; the environment's actions and an example of one precede it where they are known."""
CALLING = "You act by calling tools, and see what happened before you go on, until you are done."
"""Of the native form."""
_EMPTY = "(empty message)"
"""Stands for a message without content, which servers refuse."""
_TRUNCATED = Refusal("truncated", "the message was cut off before its end; max_tokens limits it")


class CallForm(Protocol):
    """One form of conversations. Stateless."""

    @property
    def system(self) -> str:
        """The system message."""

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The request's tools."""

    def messages(self, turns: Sequence[Turn], observation: Observation) -> tuple[Message, ...]:
        """The conversation up to where the model answers ``observation``."""

    def replies(self, answer: ModelAnswer) -> list[Reply]:
        """The turns of an answer, at least one. Never raises."""


class TextForm:
    """Actions are lines of text in our grammar; other forms are read leniently (``models.calls.free_text``)."""

    definitions: tuple[ToolDefinition, ...] = ()

    def __init__(self, prompt: str, tools: Sequence[Tool]) -> None:
        """``prompt``: precedes the description of the actions; empty = none. ``tools``: empty = not known."""
        schemas = [json.dumps(tool_schema(tool)["function"], ensure_ascii=False) for tool in tools]
        listed = "\n".join(("Your actions, with JSON Schemas of their parameters:", *schemas)) if schemas else ""
        example = f"For example: {_example(tools)}" if tools else ""
        self.system = "\n\n".join(filter(None, (prompt, listed, "\n".join(filter(None, (GRAMMAR, example))))))
        self._tools, self._names = tuple(tools), FunctionNames(tools)
        self._answer = next((tool for tool in tools if tool.text_parameter), None)

    def messages(self, turns: Sequence[Turn], observation: Observation) -> tuple[Message, ...]:
        """The observations of the user, the texts of the assistant."""
        messages = [_message("system", self.system), _message("user", _first(turns, observation))]
        for group, results in _groups(turns, observation):
            messages += [_message("assistant", _joined_text(group)), _message("user", _numbered(results))]
        return tuple(messages)

    def replies(self, answer: ModelAnswer) -> list[Reply]:
        """The calls of the text, each with its part of it; without one, the text as the answer where a tool takes
        it, else one reply without an action."""
        text = _text(answer)
        thought = _thought(answer)
        if answer.finish == "length":
            return [Reply(text, None, refusal=str(_TRUNCATED))]
        reading = read_free_text(text, self._tools, self._names)
        plain = self.plain_action(answer)
        if plain is not None and self._is_plain(text, reading):
            return [Reply(text, plain)]
        if isinstance(reading, Refusal):
            return [Reply(text, None, refusal=str(reading))]
        stops = (0, *(call.start for call in reading.calls[1:]), len(text))
        thoughts = ("\n".join(filter(None, (thought, reading.thought))), *("" for _ in reading.calls[1:]))
        return [
            Reply(text[start:stop], action, repairs=tuple(sorted(call.repairs)), call=index)
            for index, (call, (start, stop), before) in enumerate(
                zip(reading.calls, pairwise(stops), thoughts, strict=True)
            )
            for action in (_action(call, self._names, before),)
        ]

    def plain_action(self, answer: ModelAnswer) -> Action | None:
        """The text as the parameter of the tool that takes it; None = no tool does, or it is empty."""
        tool, text = self._answer, _text(answer).strip()
        if tool is None or not text:
            return None
        return Action(tool.target, tool.operation, {tool.text_parameter: text}, _thought(answer))

    def _is_plain(self, text: str, reading: Reading | Refusal) -> bool:
        """Whether a text, such as JSON, is no call of an offered tool, and none that went wrong."""
        if isinstance(reading, Refusal):
            names = (tool.name for tool in self._tools)
            return reading.reason == "no_call" or not any(
                name in text or name.replace(".", "__") in text for name in names
            )
        return not any(self._names.offers(call.name) for call in reading.calls)


class NativeForm:
    """Actions are tool calls; their results go back as such.

    A message is repeated as the server sent it, with its ids, thoughts and signatures, where the turns are whole;
    otherwise it is written anew from the actions.
    """

    def __init__(self, prompt: str, tools: Sequence[Tool], *, dialect: str, model: str) -> None:
        """``dialect``, ``model``: only they can read a message as it was sent."""
        answer = next((tool for tool in tools if tool.text_parameter), None)
        plain = "A message without a call does nothing." if answer is None else ""
        self.system = "\n\n".join(filter(None, (prompt, f"{CALLING} {plain}".strip())))
        self._names, self._answer, self._source = FunctionNames(tools, PLAIN_NAME), answer, [dialect, model]
        self._text_form = TextForm(prompt, tools)
        functions = [tool_schema(tool, self._names)["function"] for tool in tools]
        self.definitions = tuple(
            ToolDefinition(function["name"], function["description"], function["parameters"])
            for function in functions
        )

    def messages(self, turns: Sequence[Turn], observation: Observation) -> tuple[Message, ...]:
        """The observations of the user, calls and results."""
        messages = [_message("system", self.system), _message("user", _first(turns, observation))]
        number = 0
        for group, results in _groups(turns, observation):
            written = self._repeated(group) or self._written(group, number)
            calls = [part.id for part in written.parts if isinstance(part, ToolCall)]
            messages.append(written)
            if calls:
                parts = [
                    ToolResult(identity, (Text(observation_text(result)),), result.is_error)
                    for identity, result in zip(calls, results, strict=True)
                ]
                messages.append(Message("tool", tuple(parts)))
            else:
                messages.append(_message("user", _numbered(results)))
            number += len(group)
        return tuple(messages)

    def replies(self, answer: ModelAnswer) -> list[Reply]:
        """The calls; without one, those in the text, or the text as the answer where a tool takes it."""
        calls = [part for part in answer.parts if isinstance(part, ToolCall)]
        text, thought = _text(answer), _thought(answer)
        message = self._kept(answer, calls)
        if not calls:
            first, *later = self._text_replies(answer)
            return [first._replace(message=message), *later]
        replies: list[Reply] = []
        for index, call in enumerate(calls):
            is_cut = answer.finish == "length" and index == len(calls) - 1
            read = _TRUNCATED if is_cut else read_native_call(call.name, call.arguments, self._names)
            line = f"{call.name} {call.arguments}".strip()
            written = "\n".join(filter(None, (text, line))) if index == 0 else line
            if isinstance(read, Refusal):
                refusal = f"{read} (in the call of {call.name!r:.80})"
                reply = Reply(written, None, refusal=refusal, call=index)
            else:
                before = "\n".join(filter(None, (thought, text))) if index == 0 else ""
                action = _action(read, self._names, before)
                reply = Reply(written, action, repairs=tuple(sorted(read.repairs)), call=index)
            replies.append(reply._replace(message="" if index else message))
        return replies

    def _text_replies(self, answer: ModelAnswer) -> list[Reply]:
        replies = self._text_form.replies(answer)
        if replies[0].action is None or replies[0].action == self._text_form.plain_action(answer):
            return replies
        # the server has no parser for its model's format
        return [reply._replace(repairs=tuple(sorted({*reply.repairs, "in_text"}))) for reply in replies]

    def _kept(self, answer: ModelAnswer, calls: Sequence[ToolCall]) -> str:
        """``Turn.message``; empty where the message cannot be repeated as it is."""
        ids = [call.id for call in calls]
        if not answer.lines or not (calls or _text(answer)) or len(set(ids)) < len(ids) or "" in ids:
            return ""
        lines = [_with_valid_arguments(line) for line in answer.lines]
        return json.dumps([*self._source, ids, lines], ensure_ascii=False)

    def _repeated(self, group: Sequence[Turn]) -> Message | None:
        """The message as the server sent it; None = it is not known, or has other calls than these turns."""
        try:
            dialect, model, ids, lines = json.loads(group[0].message)
        except ValueError:
            return None
        if [dialect, model] != self._source or (ids and len(ids) != len(group)):
            return None
        parts = tuple(ToolCall(identity, "", "{}") for identity in ids)
        return Message("assistant", parts, tuple(lines))

    def _written(self, group: Sequence[Turn], number: int) -> Message:
        """The message with new ids, as text where it has no calls that can be written; ``number``: of its first
        turn."""
        try:
            calls = [
                ToolCall(
                    call_id(number + index),
                    self._names.write(turn.action),
                    json.dumps(dict(turn.action.parameters), ensure_ascii=False),
                )
                for index, turn in enumerate(group)
                if turn.action is not None
            ]
        except RecordError:
            calls = []
        if len(calls) < len(group) or self._is_plain(group):
            return _message("assistant", _joined_text(group))
        thought = group[0].action.thought if group[0].action is not None else ""
        return Message("assistant", (*((Text(thought),) if thought else ()), *calls))

    def _is_plain(self, group: Sequence[Turn]) -> bool:
        """Whether the turn's action is its message's text."""
        tool, action = self._answer, group[0].action
        return (
            len(group) == 1
            and tool is not None
            and action is not None
            and (action.target, action.operation) == (tool.target, tool.operation)
            and dict(action.parameters) == {tool.text_parameter: group[0].text.strip()}
        )


class _Group(NamedTuple):
    """A message of the assistant and what its calls returned."""

    turns: Sequence[Turn]
    results: Sequence[Observation]


def _groups(turns: Sequence[Turn], observation: Observation) -> Iterator[_Group]:
    results = (*(turn.observation for turn in turns[1:]), observation)
    start = 0
    while start < len(turns):
        group = first_message(turns[start:])
        yield _Group(group, results[start : start + len(group)])
        start += len(group)


def _message(role: Any, text: str) -> Message:  # Any: a Role
    return Message(role, (Text(text or _EMPTY),))


def _first(turns: Sequence[Turn], observation: Observation) -> str:
    return observation_text(turns[0].observation if turns else observation)


def _joined_text(group: Sequence[Turn]) -> str:
    return "\n".join(filter(None, (turn.text.strip() for turn in group)))


def _numbered(results: Sequence[Observation]) -> str:
    """What happened, numbered where there were several actions."""
    texts = [observation_text(result) for result in results]
    return texts[0] if len(texts) == 1 else "\n\n".join(f"[{index}] {text}" for index, text in enumerate(texts, 1))


def _text(answer: ModelAnswer) -> str:
    return "".join(part.text for part in answer.parts if isinstance(part, Text))


def _thought(answer: ModelAnswer) -> str:
    thoughts = (part.text.strip() for part in answer.parts if isinstance(part, Reasoning) and not part.is_redacted)
    return "\n".join(filter(None, thoughts))


def _action(call: Call, names: FunctionNames, thought: str) -> Action:
    target, operation = names.read(call.name)
    return Action(target, operation, call.arguments, "\n".join(filter(None, (thought, call.thought))))


def _with_valid_arguments(line: JsonValue) -> JsonValue:
    """The line; arguments that are no JSON object become one, since servers parse them again."""
    if isinstance(line, list):
        return [_with_valid_arguments(item) for item in line]
    if not isinstance(line, dict):
        return line
    fixed: dict[str, JsonValue] = {}
    for name, value in line.items():
        if name == "arguments" and isinstance(value, str):
            fixed[name] = value if _is_object(value) else json.dumps({"arguments": value}, ensure_ascii=False)
        else:
            fixed[name] = _with_valid_arguments(value) if name in ("tool_calls", "function") else value
    return fixed


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _example(tools: Sequence[Tool]) -> str:
    """A call of the first tool that needs at least one parameter, with capitals for the values that depend on the
    task."""
    tool = next((tool for tool in tools if tool.required), tools[0])
    values = "; ".join(f"{name}={_example_value(name, tool.properties.get(name))}" for name in tool.required)
    return f"{tool.name} {values}".strip()


def _example_value(name: str, schema: JsonValue) -> str:
    known = schema if isinstance(schema, dict) else {}
    if isinstance(choices := known.get("enum"), list) and choices:
        return str(choices[0])
    match known.get("type"):
        case "integer" | "number":
            return str(known.get("minimum", 1))
        case "boolean":
            return "true"
        case "array":
            return f"{name.upper()}_1,{name.upper()}_2"
    return name.upper()
