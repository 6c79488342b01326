"""Messages of model calls as the parts of turns: what was seen, what was written, and which action that is."""

import json
from collections.abc import Iterable, Sequence

from upturn.dialects import Message, Part, Reasoning, Text, ToolCall, message_text
from upturn.models import FunctionNames
from upturn.records import Action, JsonValue


def new_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """Those after the last message of the assistant."""
    start = next((index for index in reversed(range(len(messages))) if messages[index].role == "assistant"), -1)
    return messages[start + 1 :]


def seen_text(messages: Iterable[Message]) -> str:
    """What the client sent, without the model's own messages; several messages are labelled by role."""
    seen = [message for message in messages if message.role != "assistant"]
    if len(seen) == 1:
        return message_text(seen[0])
    return "\n\n".join(f"[{message.role}]\n{message_text(message)}" for message in seen)


def written_text(parts: Sequence[Part]) -> str:
    """A message of the model as text, calls included."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            lines.append(part.text)
        elif isinstance(part, ToolCall):
            lines.append(f"{part.name}({part.arguments})")
    return "\n".join(lines)


def thought_of(parts: Sequence[Part]) -> str:
    """The message's thoughts."""
    return "".join(part.text for part in parts if isinstance(part, Reasoning))


def call_action(call: ToolCall, thought: str = "", names: FunctionNames | None = None) -> Action | None:
    """A call as an action; None = its arguments are not a JSON object.

    ``names``: of an environment's tools; None = the function's name is the operation.
    """
    try:
        arguments: JsonValue = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(arguments, dict):
        return None
    target, operation = ("", call.name) if names is None else names.read(call.name)
    return Action(target, operation, arguments, thought)
