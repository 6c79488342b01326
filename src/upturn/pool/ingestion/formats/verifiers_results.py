"""Results of verifiers (``vf-eval --save-results``) and of prime-rl's rollouts: JSON lines, one rollout each.

``prompt`` and ``completion`` are lists of chat messages or text; ``example_id``, ``reward``, ``task``,
``answer``, ``info``, ``error`` and metrics stand beside them. The model stands in ``metadata.json`` beside the
file: name it with ``--agent``.
"""

from typing import Any

from pydantic_core import from_json

from upturn.pool.ingestion.formats.conversation import Defaults, Line, LineError, Lines, OpenFile, parse_reward
from upturn.pool.ingestion.formats.json_text import json_objects
from upturn.pool.ingestion.formats.recorded import Recorded, conversation_of, printable_name

_TAKEN = frozenset({"prompt", "completion", "reward", "task", "example_id", "error", "model", "tools"})


def read_verifiers(open_file: OpenFile, defaults: Defaults) -> Lines:
    """Yields the rollouts. Raises OSError."""
    with open_file() as file:
        for number, text in json_objects(file):
            if isinstance(text, LineError):
                yield Line(number, text)
                continue
            try:
                row = from_json(text, allow_inf_nan=False)
                yield Line(number, conversation_of(_recorded(row), defaults, "verifiers"), text)
            except ValueError as exc:
                yield Line(number, LineError(str(exc)), text)


def _recorded(row: Any) -> Recorded:
    if not isinstance(row, dict) or "prompt" not in row or "completion" not in row:
        raise LineError("a rollout must be an object with prompt and completion")
    task = printable_name(row.get("task"))
    example = printable_name(row.get("example_id"))
    tools: Any = row.get("tools")
    return Recorded(
        [*_messages(row["prompt"], "user"), *_messages(row["completion"], "assistant")],
        tools if isinstance(tools, list) else (),
        task if task != "default" else "",
        printable_name(row.get("model")),
        f"{task} {example}" if example else "",
        reward=parse_reward(row.get("reward")),
        error=str(row["error"]) if row.get("error") else "",
        extra={key: value for key, value in row.items() if key not in _TAKEN},
    )


def _messages(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if not isinstance(value, list):
        raise LineError("prompt and completion must be text or a list of messages")
    return [_message(message) for message in value]


def _message(message: Any) -> Any:
    """Returns a message whose calls may be JSON text, as older versions wrote them."""
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if isinstance(calls, list) and any(isinstance(call, str) for call in calls):
        return message | {"tool_calls": [from_json(call) if isinstance(call, str) else call for call in calls]}
    return message
