"""Trajectories as chats: the messages that a model read and wrote, and its tools.

The calls of an episode have their messages as they were sent. Where these are deleted, and for trajectories in
environments, the messages are written from the turns: an observation of several messages has a label line
(``[user]``) before each; any other one is the result of the call before it, else a message of the user. Not
covered: a text that itself contains such label lines. Not here: imported conversations
(``pool.ingestion.transcript``).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from upturn.dialects import (
    Conversation,
    Json,
    Message,
    ModelAnswer,
    ModelRequest,
    Part,
    Text,
    Toolbox,
    ToolCall,
    ToolDefinition,
    ToolResult,
    dialect_of,
    json_object,
)
from upturn.pool.calls import StoredCall
from upturn.records import JsonValue, Observation, Tool, Trajectory, Turn, from_fields

_LABEL = re.compile(r"(?:^|\n\n)\[(system|developer|user|tool|function)\]\n")


class Chat(NamedTuple):
    """A conversation with its tools."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()

    @property
    def has_words(self) -> bool:
        """Whether the model wrote anything."""
        return any(message.role == "assistant" and _is_written(message) for message in self.messages)


def message_rows(messages: Sequence[Message]) -> list[Json]:
    """Returns the messages in OpenAI's form, with the arguments of calls as objects.

    Raises RequestError for what that form cannot express.
    """
    rows = _written(messages, ())["messages"]
    assert isinstance(rows, list)
    return [_with_objects(row) for row in rows if isinstance(row, dict)]


def tool_rows(tools: Sequence[ToolDefinition]) -> list[JsonValue]:
    """Returns the tools as JSON Schemas in OpenAI's form."""
    rows = _written((), tools).get("tools", [])
    return rows if isinstance(rows, list) else []


def _written(messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Json:
    return dialect_of("chat").write_request(ModelRequest("", tuple(messages), tuple(tools)))


def _with_objects(row: Mapping[str, JsonValue]) -> Json:
    calls = row.get("tool_calls")
    written: Json = {**row, "content": row.get("content") or ""}  # templates concatenate it
    if isinstance(calls, list):
        written["tool_calls"] = [_with_object(call) for call in calls if isinstance(call, dict)]
    return written


def _with_object(call: Mapping[str, JsonValue]) -> Json:
    function = call["function"]
    assert isinstance(function, dict)
    arguments = function["arguments"]
    parsed = json_object(arguments or "{}") if isinstance(arguments, str) else None
    return {**call, "function": {**function, "arguments": arguments if parsed is None else parsed}}


def chats_of_calls(calls: Sequence[StoredCall]) -> list[Chat] | None:
    """Returns the conversations of an episode's calls: one for each answered call that no other one extends.

    None = the content of one is deleted.
    """
    answered = {stored.call.id: stored for stored in calls if stored.call.status == "answered"}
    extended = {stored.call.extends for stored in answered.values()}
    chats = [_chat_until(answered, name) for name in answered if name not in extended]
    if any(chat is None for chat in chats):
        return None
    return [chat for chat in chats if chat is not None]


def _chat_until(answered: Mapping[str, StoredCall], name: str) -> Chat | None:
    messages: list[Message] = []
    tools: tuple[ToolDefinition, ...] = ()
    call_id: str | None = name
    while call_id is not None:
        stored = answered.get(call_id)
        if stored is None or stored.content is None or not stored.content.answer:
            return None
        sent = from_fields(Conversation, stored.content.messages).messages
        answer = from_fields(ModelAnswer, stored.content.answer)
        messages = [*sent, Message("assistant", answer.parts), *messages]
        if stored.content.tools and not tools:
            tools = from_fields(Toolbox, stored.content.tools).tools
        call_id = stored.call.extends
    return Chat(tuple(messages), tools)


def chat_of_turns(trajectory: Trajectory, *, prompt: str = "", tools: Sequence[Tool] = ()) -> Chat:
    """Returns the trajectory's turns as messages, and what was observed after the last one, if anything.

    ``prompt``: the system prompt; empty = none, or it is in the first observation. ``tools``: of the environment.
    """
    messages = [Message("system", (Text(prompt),))] if prompt else []
    by_action = {(tool.target, tool.operation): tool for tool in tools}
    waiting: list[str] = []
    """Ids of the calls whose results are not observed yet."""
    count = 0
    for turns in _by_message(trajectory.turns):
        messages += _observed(turns[0].observation, waiting)
        parts, waiting = _message_parts(turns, by_action, count)
        count += len(waiting)
        messages.append(Message("assistant", parts))
        for turn in turns[1:]:  # between two calls of a message, the result of the earlier one is observed
            messages.append(_result(waiting.pop(0), turn.observation))
    if trajectory.final_observation.text or trajectory.final_observation.is_error:
        messages += _observed(trajectory.final_observation, waiting)
    return Chat(tuple(messages), tuple(map(_definition, tools)))


def _by_message(turns: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    start = 0
    for index in range(1, len(turns) + 1):
        if index == len(turns) or turns[index].call == 0:
            yield turns[start:index]
            start = index


def _observed(observation: Observation, waiting: Sequence[str]) -> Iterator[Message]:
    """Yields the messages of an observation; results belong to the waiting calls in their order."""
    text = _observation_text(observation)
    unanswered = list(waiting)
    if not _LABEL.match(text):
        if unanswered:
            yield _result(unanswered[-1], observation)
        elif text:
            yield Message("user", (Text(text),))
        return
    _, *pieces = _LABEL.split(text)
    for role, piece in zip(pieces[::2], pieces[1::2], strict=True):
        if role in ("tool", "function") and unanswered:
            yield _result(unanswered.pop(0), Observation(piece))
        else:
            yield Message("system" if role in ("system", "developer") else "user", (Text(piece),))


def _message_parts(
    turns: Sequence[Turn], by_action: Mapping[tuple[str, str], Tool], count: int
) -> tuple[tuple[Part, ...], list[str]]:
    """Returns the parts of a message of the model, and the ids of its calls; ``count``: calls before it."""
    first = turns[0].action
    tool = None if first is None else by_action.get((first.target, first.operation))
    if first is None or (tool is None and first.target == "user"):
        return (Text(_said(turns[0])),), []
    if tool is not None and tool.text_parameter and len(turns) == 1:
        return (Text(str(first.parameters.get(tool.text_parameter, ""))),), []
    actions = [turn.action for turn in turns if turn.action is not None]
    calls = [
        ToolCall(f"call_{count + index}", action.name, json.dumps(dict(action.parameters), ensure_ascii=False))
        for index, action in enumerate(actions)
    ]
    said = (Text(first.thought),) if first.thought else ()
    return (*said, *calls), [call.id for call in calls]


def _said(turn: Turn) -> str:
    """Returns the text of a message to the user."""
    if turn.action is None or not turn.action.parameters:
        return turn.text
    texts = [value for value in turn.action.parameters.values() if isinstance(value, str)]
    return texts[0] if len(texts) == len(turn.action.parameters) == 1 else turn.text


def _result(call_id: str, observation: Observation) -> Message:
    text = Text(_observation_text(observation))
    return Message("tool", (ToolResult(call_id, (text,), observation.is_error),))


def _observation_text(observation: Observation) -> str:
    """Returns what a model reads of the observation."""
    if not observation.is_error:
        return observation.text
    return f"error {observation.code}: {observation.text}" if observation.text else f"error {observation.code}"


def _definition(tool: Tool) -> ToolDefinition:
    schema: Json = {"type": "object", "properties": dict(tool.properties), "required": list(tool.required)}
    return ToolDefinition(tool.name, tool.description, schema)


def _is_written(message: Message) -> bool:
    return any(isinstance(part, ToolCall) or (isinstance(part, Text) and part.text) for part in message.parts)
