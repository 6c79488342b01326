"""JSON lines with one conversation per line: ``{"messages": […], …}``; also a JSON array of such objects.

Optional keys: ``reward`` (0 to 1), ``success`` (true or false; it overrides ``reward``), ``id`` (of the
conversation), ``task_id`` (equal for trajectories of the same task; without it, conversations with the same first
system and user message and the same tools), ``trial``, ``family`` (default ``chat``), ``model``,
``tools`` (as in a request) and ``tags`` (of the task). Other keys are kept with the trajectory.
"""

from typing import Any

from pydantic_core import from_json

from upturn.pool.ingestion.formats.conversation import (
    Conversation,
    Defaults,
    Line,
    LineError,
    Lines,
    OpenFile,
    first_text,
    parse_name,
    parse_number,
    parse_reward,
    parse_tags,
    parse_turns,
)
from upturn.pool.ingestion.formats.json_text import json_objects
from upturn.pool.ingestion.formats.known_keys import unknown_keys
from upturn.pool.ingestion.formats.recorded import text_key
from upturn.records import JsonValue

_KEYS = frozenset(
    {"messages", "reward", "success", "id", "task_id", "trial", "family", "model", "tools", "functions", "tags"}
)

_MESSAGE_KEYS = frozenset(
    {
        "role",
        "content",
        "tool_calls",
        "function_call",
        "tool_call_id",
        "name",
        "reasoning_content",
        "reasoning",
    }
)


def read_chat(open_file: OpenFile, defaults: Defaults) -> Lines:
    """Yields the lines of the file that are not blank. Raises OSError."""
    with open_file() as file:
        for number, text in json_objects(file):
            if isinstance(text, LineError):
                yield Line(number, text)
                continue
            try:
                yield Line(number, _conversation(text, defaults), text)
            except LineError as exc:
                yield Line(number, exc, text)


def _conversation(text: bytes, defaults: Defaults) -> Conversation:
    try:
        raw = from_json(text, allow_inf_nan=False)
    except ValueError as exc:
        raise LineError(f"not JSON: {exc}") from exc
    if not isinstance(raw, dict):
        raise LineError('a line must be an object {"messages": […]}')
    extra = unknown_keys(raw, _KEYS)
    messages, tools = raw.get("messages"), parse_tools(raw)
    further = _unknown_in_messages(messages)
    turns, final_observation = parse_turns(messages, tools)
    if not turns:
        raise LineError("no assistant message")
    instruction = first_text(messages, "user")
    task_id = parse_name(raw.get("task_id"), "task_id")
    reward = parse_reward(raw.get("reward"))
    return Conversation(
        task_key=f"id {task_id}" if task_id is not None else text_key(messages, instruction, tools),
        family=parse_name(raw.get("family"), "family") or defaults.family or "chat",
        instruction=instruction,
        agent=parse_name(raw.get("model"), "model") or defaults.agent,
        number=parse_number(raw.get("trial")),
        turns=turns,
        final_observation=final_observation,
        reward=reward,
        is_success=_success(raw.get("success"), reward),
        identity=parse_name(raw.get("id"), "id"),
        tools=tools,
        tags=parse_tags(raw.get("tags")),
        extra=extra | ({"messages": further} if further else {}),
        unknown=(*extra, *_keys_in(further)),
    )


def _keys_in(further: dict[str, JsonValue]) -> set[str]:
    return {f"messages.{key}" for entries in further.values() if isinstance(entries, dict) for key in entries}


def _unknown_in_messages(messages: object) -> dict[str, JsonValue]:
    """Returns what the messages have beside the known keys, by index; raises LineError for misspelt ones."""
    if not isinstance(messages, list):
        return {}
    found: dict[str, JsonValue] = {}
    for index, message in enumerate(messages):
        if isinstance(message, dict) and not message.keys() <= _MESSAGE_KEYS:
            unknown = unknown_keys(message, _MESSAGE_KEYS)
            kept: JsonValue = {key: value for key, value in unknown.items() if value is not None}
            if kept:
                found[str(index)] = kept
    return found


def parse_tools(raw: dict[str, Any]) -> list[Any]:
    """Returns the tools of a request, those of the older form included; raises LineError."""
    tools = raw.get("tools") or []
    functions = raw.get("functions") or []
    for name, value in (("tools", tools), ("functions", functions)):
        if not isinstance(value, list) or not all(isinstance(tool, dict) for tool in value):
            raise LineError(f"{name} must be a list of objects or null")
    return [*tools, *({"type": "function", "function": function} for function in functions)]


def _success(value: object, reward: float | None) -> bool | None:
    if isinstance(value, bool):
        return value
    if value is not None:
        raise LineError(f"success must be true, false or null, got {value!r}")
    return None if reward is None else reward >= 1
