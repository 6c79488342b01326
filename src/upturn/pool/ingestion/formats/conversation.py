"""Parsing of recorded conversations: OpenAI-style chat messages, with ``tool_calls`` or ``function_call``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from pydantic_core import from_json

from upturn.records import Action, JsonValue, Observation, Outcome, Turn

TOOL = "tool"
"""Target of actions that call a tool."""

_ROLES = ("system", "developer", "user", "tool", "function")
"""Roles of the messages that the agent reads; its own have the role ``assistant``."""

_LONGEST_NAME = 200
"""Maximum characters of a name from a file or an option: families, models, task ids."""

NAME_RULE = f"1 to {_LONGEST_NAME} printable characters"
"""The rule of ``is_name``, for messages."""


class LineError(ValueError):
    """A line or row of a file is unusable; the message is the reason of its quarantine."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One recorded trajectory of one task."""

    task_key: str
    """Equal for trajectories of the same task, within a family."""
    family: str
    instruction: str
    agent: str
    """The model's name."""
    number: int | None
    """Number of the trajectory among those of the task; None = not recorded."""
    turns: tuple[Turn, ...]
    final_observation: Observation
    reward: float | None
    """In [0, 1]; None = not recorded."""
    is_success: bool | None
    """None = not recorded."""
    outcome: Outcome = "finished"
    error: str = ""
    context: Mapping[str, JsonValue] = field(default_factory=dict)
    identity: str | None = None
    """The source's id of the trajectory; None = it has none."""
    tools: Sequence[JsonValue] = ()
    """That were offered, as in a request."""
    extra: Mapping[str, JsonValue] = field(default_factory=dict)
    """What the format does not know, by key."""


class Line(NamedTuple):
    """The content of one line or row of a file, or its error."""

    number: int
    """From 1."""
    content: Conversation | LineError
    text: bytes = b""
    """As it is in the file; empty = too long to keep."""


Lines: TypeAlias = Iterator[Line]

OpenFile: TypeAlias = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens the file at its beginning, decompressed."""


class Defaults(NamedTuple):
    """Values for missing fields of a recording."""

    family: str | None = None
    """None = the format's default."""
    agent: str = "unknown"


class _Message(NamedTuple):
    role: str
    text: str
    actions: tuple[Action, ...] = ()
    """The actions of an assistant message, one a call."""
    ids: tuple[str, ...] = ()
    """Of an assistant's calls, empty where it has none; of another message, the id of the call that it answers."""


class _Call(NamedTuple):
    name: str
    arguments: dict[str, JsonValue]
    id: str
    """Empty = it has none."""


def parse_turns(messages: object) -> tuple[tuple[Turn, ...], Observation]:
    """Returns one turn per call of an assistant message, and the observation after the last one; raises LineError.

    An observation of one message is its text; an observation of several has a line ``[role]`` before each. Between
    two calls of one message, it is the result of the first of them.
    """
    if not isinstance(messages, list):
        raise LineError(f"messages must be a list, got {_kind(messages)}")
    turns: list[Turn] = []
    observed: list[_Message] = []
    called: tuple[str, ...] = ()
    for index, raw in enumerate(messages):
        message = _message(raw, index)
        if message.role == "assistant":
            before = _observation(_divide(turns, called, observed))
            first = message.actions[0] if message.actions else None
            turns.append(Turn(before, message.text, first))
            turns += [Turn(Observation(""), "", action, call=call) for call, action in _later(message.actions)]
            called, observed = message.ids, []
        else:
            observed.append(message)
    final = _observation(_divide(turns, called, observed))
    return tuple(turns), final


def _later(actions: Sequence[Action]) -> Iterator[tuple[int, Action]]:
    """Yields the actions after the first with their indices."""
    return islice(enumerate(actions), 1, None)


def _divide(turns: list[Turn], called: Sequence[str], observed: Sequence[_Message]) -> list[_Message]:
    """Gives the last message's calls after the first the result of the call before; returns the other messages.

    ``called``: the ids of its calls. Results without ids belong to them in order.
    """
    rest = list(observed)
    for index, identity in enumerate(called[:-1]):
        results = [message for message in rest if message.role in ("tool", "function")]
        result = next((message for message in results if identity and identity in message.ids), None)
        if result is None and results and not results[0].ids:
            result = results[0]
        if result is not None:
            rest.remove(result)
            place = len(turns) - len(called) + index + 1
            turns[place] = replace(turns[place], observation=Observation(result.text))
    return rest


def first_text(messages: object, role: str) -> str:
    """Returns the text of the first message with this role; empty = no such message."""
    if isinstance(messages, list):
        for raw in messages:
            if isinstance(raw, dict) and raw.get("role") == role:
                return _text(raw.get("content"), 0)
    return ""


def parse_reward(value: object) -> float | None:
    """Returns a reward in [0, 1], None if it is missing; raises LineError for other values."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise LineError(f"reward must be a number from 0 to 1 or null, got {_shorten(value)}; rescale it first")
    return float(value)


def parse_number(value: object) -> int | None:
    """Returns the trajectory's number, None if it is missing; raises LineError for other values."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise LineError(f"trial must be a whole number from 0 or null, got {_shorten(value)}")
    return value


def parse_name(value: object, name: str) -> str | None:
    """Returns a name, None if it is missing; raises LineError for other values."""
    if value is None:
        return None
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not is_name(text):
        raise LineError(f"{name} must be {NAME_RULE} or null, got {_shorten(value)}")
    return text


def is_name(text: str) -> bool:
    """Returns whether the text is a valid name, see ``NAME_RULE``."""
    return 0 < len(text) <= _LONGEST_NAME and text.isprintable()


def _message(raw: object, index: int) -> _Message:
    if not isinstance(raw, dict):
        raise LineError(f"message {index} must be an object, got {_kind(raw)}")
    role = raw.get("role")
    if role == "assistant":
        text = _text(raw.get("content"), index)
        calls = _calls(raw, index)
        ids = tuple(call.id for call in calls)
        return _Message(role, text, _actions(calls, text), ids)
    if not isinstance(role, str) or role not in _ROLES:
        raise LineError(f"message {index} has role {_shorten(role)}; known: assistant, {', '.join(_ROLES)}")
    answered = raw.get("tool_call_id")
    return _Message(
        role, _text(raw.get("content"), index), ids=(answered,) if isinstance(answered, str) and answered else ()
    )


def _text(content: object, index: int) -> str:
    """Returns the text of a string, null, or a list of parts; for parts other than text, their type."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part(part, index) for part in content)
    raise LineError(f"content of message {index} must be text, a list of parts or null, got {_kind(content)}")


def _part(part: object, index: int) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise LineError(f"a content part of message {index} must be an object, got {_kind(part)}")
    text = part.get("text")
    return text if isinstance(text, str) else f"[{str(part.get('type'))[:_LONGEST_NAME]}]"


def _calls(raw: Mapping[str, Any], index: int) -> list[_Call]:
    calls = raw.get("tool_calls") or []
    if not isinstance(calls, list):
        raise LineError(f"tool_calls of message {index} must be a list or null, got {_kind(calls)}")
    function_call = raw.get("function_call")  # the older form
    return [_call(call, index) for call in [*calls, *([function_call] if function_call else [])]]


def _call(call: object, index: int) -> _Call:
    function = call.get("function", call) if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise LineError(f"a tool call of message {index} has no function name: {_shorten(call)}")
    identity = call.get("id") if isinstance(call, dict) else None
    return _Call(name, _arguments(function.get("arguments")), identity if isinstance(identity, str) else "")


def _arguments(value: object) -> dict[str, JsonValue]:
    """Returns the call's arguments; anything except a JSON object is stored under ``arguments``."""
    if value is None or value == "":
        return {}
    parsed: Any = value
    if isinstance(value, str):
        try:
            parsed = from_json(value, allow_inf_nan=False)
        except ValueError:
            parsed = value
    return parsed if isinstance(parsed, dict) else {"arguments": parsed}


def _actions(calls: Sequence[_Call], text: str) -> tuple[Action, ...]:
    """Returns an action for each call, or a message for text alone."""
    if not calls and text:
        return (Action("user", "message"),)
    return tuple(Action(TOOL, call.name, call.arguments) for call in calls)


def _observation(messages: Sequence[_Message]) -> Observation:
    if len(messages) == 1:
        return Observation(messages[0].text)
    return Observation("\n\n".join(f"[{message.role}]\n{message.text}" for message in messages))


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
