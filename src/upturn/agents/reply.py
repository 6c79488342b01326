"""An agent's answer made fit to be acted on and recorded: whatever an agent sends, nothing of it can raise later.

Order of checks: it is a Reply with a text; the text is short enough and Unicode; the action is a record that reads
back equal. What fails the first is refused; what fails another is recorded as text that is no action, so that the
environment answers with an error observation and the agent may go on. Not covered: code that patches this process.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from upturn.agents.agent import Reply
from upturn.errors import RecordError
from upturn.records import Action, JsonValue, fields_json, from_fields

LONGEST_ANSWER = 2**20
"""Characters of a text, and of an action as JSON: far above any action, and bearable in every turn."""
DEEPEST_ANSWER = 64
"""Lists and objects within each other in an action's parameters. JSON is read to 200; trajectories and states add
levels of their own."""


def recordable(reply: Any) -> Reply:  # Any: agents are foreign code
    """The reply with a text and an action of its own, shared with nobody; raises TypeError for what is no Reply."""
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        raise TypeError(f"an agent must answer with a Reply that has a text, got a {type(reply).__name__}")
    text = reply.text[:LONGEST_ANSWER].encode("utf-8", "backslashreplace").decode()
    action = None if reply.action is None or text != reply.text else _copied(reply.action)
    return Reply(text, action, reply.usage)


def _copied(action: Action) -> Action | None:
    """An equal action; None where there is none: what is in it is no JSON, is not Unicode, or is too much."""
    try:
        written = fields_json(action)
        copied = from_fields(Action, written)
    except RecordError:
        return None
    is_bearable = len(written) <= LONGEST_ANSWER and not _is_deeper(copied.parameters, DEEPEST_ANSWER)
    return copied if is_bearable and copied == action else None


def _is_deeper(value: JsonValue | Mapping[str, JsonValue], levels: int) -> bool:
    """Whether lists and objects lie in each other more than ``levels`` deep."""
    if isinstance(value, Mapping):
        inner: Iterable[JsonValue] = value.values()
    elif isinstance(value, list):
        inner = value
    else:
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)
