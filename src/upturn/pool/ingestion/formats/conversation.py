"""Parsing of recorded conversations: OpenAI-style chat messages, with ``tool_calls`` or ``function_call``."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from upturn.pool.tags import MOST_TAGS, TAG_RULE, is_tag
from upturn.records import Action, JsonValue, Observation, Outcome, Turn, Usage, record

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
    """What else the source says, by key."""
    tags: Sequence[str] = ()
    """Of its task."""
    unknown: Sequence[str] = ()
    """Keys that the format does not know; their values are in ``extra``."""
    usage: Usage = field(default_factory=Usage)
    """Tokens and time; 0 = not recorded."""
    cost: float | None = None
    """In the unit of the source; None = not recorded."""
    mark: str = ""
    """What tells it from others with the same turns, beside its place; empty = nothing."""


class Line(NamedTuple):
    """The content of one line or row of a file, or its error."""

    number: int
    """From 1."""
    content: Conversation | LineError
    text: bytes = b""
    """As it is in the file; empty = too long to keep."""
    further: tuple[Conversation, ...] = ()
    """Other conversations of the same line."""
    is_preference: bool = False
    """Whether the first conversation is preferred to each of the others."""


Lines: TypeAlias = Iterator[Line]

OpenFile: TypeAlias = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens the file at its beginning, decompressed."""


class Defaults(NamedTuple):
    """Values for missing fields of a recording."""

    family: str | None = None
    """None = the format's default."""
    agent: str = "unknown"


@record
class Seen:
    """``Turn.message`` of an imported conversation: what the turn does not say of the messages before it."""

    messages: tuple[tuple[str, int], ...] | None = None
    """Role and length of the text of each message; None = one message, of a tool after a call, otherwise the
    user's."""
    tools: tuple[JsonValue, ...] = ()
    """Offered from here on, as in a request; empty = those before."""
    lost: str = ""
    """Why the messages cannot be given back word for word; empty = they can."""


class _Message(NamedTuple):
    role: str
    text: str
    lost: str = ""
    """What of it the text does not have."""
    actions: tuple[Action, ...] = ()
    """The actions of an assistant message, one a call."""
    ids: tuple[str, ...] = ()
    """Of an assistant's calls, empty where it has none; of another message, the id of the call that it answers."""


class _Call(NamedTuple):
    name: str
    arguments: dict[str, JsonValue]
    id: str
    """Empty = it has none."""
    lost: str = ""
    """What the arguments lack; empty = nothing."""


def parse_turns(messages: object, tools: Sequence[JsonValue] = ()) -> tuple[tuple[Turn, ...], Observation]:
    """Returns one turn per call of an assistant message, and the observation after the last one; raises LineError.

    An observation of one message is its text; an observation of several has a line ``[role]`` before each. Between
    two calls of one message, it is the result of the first of them. ``Turn.message`` has the roles (``Seen``), so
    that ``transcript`` gives back the messages; ``tools``: that were offered.
    """
    if not isinstance(messages, list):
        raise LineError(f"messages must be a list, got {_kind(messages)}")
    turns: list[Turn] = []
    observed: list[_Message] = []
    called: tuple[str, ...] = ()
    for index, raw in enumerate(messages):
        message = _message(raw, index)
        if message.role == "assistant":
            before = _divide(turns, called, observed) if len(called) > 1 else observed
            seen = _seen(before, message, is_after_call=bool(called), tools=() if turns else tuple(tools))
            first = message.actions[0] if message.actions else None
            turns.append(Turn(_observation(before), message.text, first, message=seen))
            if len(message.actions) > 1:
                turns += [
                    Turn(Observation(""), "", action, call=call, message=_NO_RESULT)
                    for call, action in _later(message.actions)
                ]
            called, observed = message.ids, []
        else:
            observed.append(message)
    final = _observation(_divide(turns, called, observed))
    return tuple(turns), final


def _seen(
    before: Sequence[_Message], answer: _Message, *, is_after_call: bool, tools: tuple[JsonValue, ...]
) -> str:
    """Returns ``Turn.message`` of an answer to these messages; empty = it says nothing that the turn does not."""
    lost = next((message.lost for message in (*before, answer) if message.lost), "")
    usual = ("tool", "function") if is_after_call else ("user",)
    if len(before) == 1 and before[0].role in usual and not LABEL.match(before[0].text):
        return _seen_json(None, tools, lost)
    return _seen_json([(message.role, len(message.text)) for message in before], tools, lost)


LABEL = re.compile(rf"\[(?:{'|'.join(_ROLES)})\]\n")
"""Begins the text of several messages."""


def _seen_json(messages: Sequence[tuple[str, int]] | None, tools: tuple[JsonValue, ...], lost: str) -> str:
    """Returns ``Seen`` as JSON without what is as usual; empty = all of it."""
    fields = {
        **({} if messages is None else {"messages": messages}),
        **({"tools": tools} if tools else {}),
        **({"lost": lost} if lost else {}),
    }
    return to_json(fields).decode() if fields else ""


_NO_RESULT = _seen_json((), (), "")
"""Of a call whose predecessor in the message got no result."""


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
            seen = _seen_json(None, (), result.lost)
            turns[place] = replace(turns[place], observation=Observation(result.text), message=seen)
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


def parse_tags(value: object) -> tuple[str, ...]:
    """Returns the tags, without repeated ones; raises LineError for what is no list of them or null."""
    tags = [] if value is None else value
    if not isinstance(tags, list) or len(tags) > MOST_TAGS or not all(map(is_tag, tags)):
        raise LineError(f"tags must be a list of at most {MOST_TAGS} texts of {TAG_RULE}, got {_shorten(value)}")
    return tuple(dict.fromkeys(tags))


def is_name(text: str) -> bool:
    """Returns whether the text is a valid name, see ``NAME_RULE``."""
    return 0 < len(text) <= _LONGEST_NAME and text.isprintable()


def _message(raw: object, index: int) -> _Message:
    if not isinstance(raw, dict):
        raise LineError(f"message {index} must be an object, got {_kind(raw)}")
    role = raw.get("role")
    if role == "assistant":
        content = raw.get("content")
        text = _text(content, index)
        thought = raw.get("reasoning_content") or raw.get("reasoning")
        if type(content) is str and not raw.get("tool_calls") and not raw.get("function_call"):  # most of them
            return _Message(role, text, "", _actions((), text, thought if isinstance(thought, str) else ""))
        calls = _calls(raw, index)
        ids = tuple(call.id for call in calls)
        lost = _lost(content) or next((call.lost for call in calls if call.lost), "")
        return _Message(role, text, lost, _actions(calls, text, thought if isinstance(thought, str) else ""), ids)
    if not isinstance(role, str) or role not in _ROLES:
        raise LineError(f"message {index} has role {_shorten(role)}; known: assistant, {', '.join(_ROLES)}")
    answered = raw.get("tool_call_id")
    content = raw.get("content")
    if answered is None and type(content) is str:  # most of them
        return _Message(role, content)
    ids = (answered,) if isinstance(answered, str) and answered else ()
    return _Message(role, _text(content, index), _lost(content), ids=ids)


def _lost(content: object) -> str:
    """Returns what the text of a message's content lacks; empty = nothing."""
    if isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and not isinstance(part.get("text"), str):
                return f"it has parts other than text ({str(part.get('type'))[:_LONGEST_NAME]})"
    return ""


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
    arguments = _arguments(function.get("arguments"))
    identity = identity if isinstance(identity, str) else ""
    if arguments is None:
        return _Call(name, {"arguments": function["arguments"]}, identity, "arguments of a call are no JSON object")
    return _Call(name, arguments, identity)


def _arguments(value: object) -> dict[str, JsonValue] | None:
    """Returns the call's arguments; None = they are no JSON object."""
    if value is None or value == "":
        return {}
    parsed: Any = value
    if isinstance(value, str):
        try:
            parsed = from_json(value, allow_inf_nan=False)
        except ValueError:
            parsed = value
    return parsed if isinstance(parsed, dict) else None


def _actions(calls: Sequence[_Call], text: str, thought: str) -> tuple[Action, ...]:
    """Returns an action for each call, or a message for text alone; the first has the thought."""
    if not calls:
        return (Action("user", "message", {}, thought),) if text or thought else ()
    later = (Action(TOOL, call.name, call.arguments) for call in calls[1:])
    return (Action(TOOL, calls[0].name, calls[0].arguments, thought), *later)


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
