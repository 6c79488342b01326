"""Imported conversations as messages again, word for word; ids of calls are new.

The turns have the texts, and ``Turn.message`` says who said what where the turns do not (``formats.conversation``).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from upturn.dialects import Message, Part, Reasoning, Text, ToolCall, ToolDefinition, ToolResult
from upturn.errors import RecordError
from upturn.pool.ingestion.formats import LABEL, TOOL, Seen
from upturn.pool.quality import IMPORTED
from upturn.records import JsonValue, Trajectory, Turn, from_fields


class Answer(NamedTuple):
    """A message of the model."""

    turn: int
    """Index of its first turn."""
    before: int
    """Number of messages before it."""
    parts: tuple[Part, ...]


class Transcript(NamedTuple):
    """A conversation as it was recorded, up to the model's last message."""

    messages: tuple[Message, ...]
    answers: tuple[Answer, ...]
    tools: tuple[ToolDefinition, ...]


class LostWordsError(RecordError):
    """A conversation cannot be given back word for word; the message is the reason."""


def is_imported(trajectory: Trajectory) -> bool:
    """Whether the trajectory is an imported conversation."""
    return trajectory.agent_version.startswith(f"{IMPORTED}:")


def transcript(trajectory: Trajectory) -> Transcript:
    """Returns the conversation; raises LostWordsError."""
    messages: list[Message] = []
    answers: list[Answer] = []
    tools: tuple[JsonValue, ...] = ()
    pending: list[ToolCall] = []
    """Calls without a result."""
    for number, turn in enumerate(trajectory.turns):
        seen = from_fields(Seen, turn.message) if turn.message else Seen()
        if seen.lost:
            raise LostWordsError(seen.lost)
        tools = seen.tools or tools
        if turn.call:
            if seen.messages is None:
                messages.append(_result(pending.pop(0), turn.observation.text))
            else:
                pending.pop(0)
            continue
        for role, text in _observed(turn, seen, is_after_call=bool(pending)):
            if role not in ("tool", "function"):
                messages.append(Message(_ROLES[role], (Text(text),)))
            elif pending:
                messages.append(_result(pending.pop(0), text))
            else:
                raise LostWordsError("a tool's result has no call")
        pending = _calls(trajectory.turns[number:], f"call_{number}")
        answers.append(Answer(number, len(messages), _parts(turn, pending)))
        messages.append(Message("assistant", answers[-1].parts))
    return Transcript(tuple(messages), tuple(answers), tuple(map(_tool, tools)))


_ROLES: Mapping[str, Literal["system", "user"]] = {"system": "system", "developer": "system", "user": "user"}


def _observed(turn: Turn, seen: Seen, *, is_after_call: bool) -> Iterator[tuple[str, str]]:
    """Yields role and text of the messages before a message of the model."""
    text = turn.observation.text
    if seen.messages is None:
        if LABEL.match(text):
            raise LostWordsError("it was imported by an earlier version; import its file into a new pool")
        yield ("tool" if is_after_call else "user"), text
    elif len(seen.messages) == 1:
        yield seen.messages[0][0], text
    else:
        position = 0
        for role, length in seen.messages:
            start = position + len(f"[{role}]\n")
            yield role, text[start : start + length]
            position = start + length + len("\n\n")


def _calls(turns: Sequence[Turn], prefix: str) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for index, turn in enumerate(turns):
        if (index and not turn.call) or turn.action is None or turn.action.target != TOOL:
            break
        arguments = json.dumps(dict(turn.action.parameters), ensure_ascii=False)
        calls.append(ToolCall(f"{prefix}_{index}", turn.action.operation, arguments))
    return calls


def _parts(turn: Turn, calls: Sequence[ToolCall]) -> tuple[Part, ...]:
    thought = turn.action.thought if turn.action is not None else ""
    said = (Text(turn.text),) if turn.text or not calls else ()
    return (*((Reasoning(thought),) if thought else ()), *said, *calls)


def _result(call: ToolCall, text: str) -> Message:
    return Message("tool", (ToolResult(call.id, (Text(text),)),))


def _tool(tool: Any) -> ToolDefinition:  # Any: a JSON border
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str):
        raise LostWordsError("a tool that was offered has no name")
    description, parameters = function.get("description"), function.get("parameters")
    return ToolDefinition(
        name,
        description if isinstance(description, str) else "",
        parameters if isinstance(parameters, dict) else {},
    )
