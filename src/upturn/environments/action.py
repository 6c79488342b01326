"""What comes from outside as an action, made fit to be acted on and recorded: nothing of it can raise later.

Order of checks: it can be written as JSON and read back equal; it is short enough; it is not too deep. What fails
one is acted on as ``MALFORMED``, so that the environment answers with an error observation.
"""

from collections.abc import Iterable, Mapping

from upturn.errors import RecordError
from upturn.models import write_call
from upturn.records import Action, JsonValue, fields_json, from_fields

MALFORMED = Action(target="", operation="")
"""What an environment is sent when a text cannot be read: no environment knows it, so it answers with an error
observation."""
LONGEST_ANSWER = 2**20
"""Characters of a text, and of an action as JSON: far above any action, and bearable in every turn."""
DEEPEST_ANSWER = 64
"""Lists and objects within each other in an action's parameters. JSON is read to 200; trajectories and states add
levels of their own."""


def typed_action(action: object) -> Action:
    """The action itself; ``MALFORMED`` where it is none, or its parts are of other types than they should be."""
    if not isinstance(action, Action) or not isinstance(action.parameters, Mapping):
        return MALFORMED
    return action if isinstance(action.target, str) and isinstance(action.operation, str) else MALFORMED


def recordable_text(text: str) -> str:
    """The text, cut to ``LONGEST_ANSWER`` characters; what is not Unicode in it is written as escapes."""
    return text[:LONGEST_ANSWER].encode("utf-8", "backslashreplace").decode()


def recordable_action(action: Action) -> Action | None:
    """An equal action, shared with nobody; None = what is in it is no JSON, is not Unicode, or is too much."""
    try:
        written = fields_json(action)
        copied = from_fields(Action, written)
    except RecordError:
        return None
    is_bearable = len(written) <= LONGEST_ANSWER and not _is_deeper(copied.parameters, DEEPEST_ANSWER)
    return copied if is_bearable and copied == action else None


def action_text(action: Action) -> str:
    """The action as one line; its names alone where it cannot be written."""
    try:
        return write_call(action)
    except Exception:  # noqa: BLE001  names outside the grammar, or of any type: the environment is asked, and refuses
        return f"{action.target!s:.200}.{action.operation!s:.200}"


def _is_deeper(value: JsonValue | Mapping[str, JsonValue], levels: int) -> bool:
    """Whether lists and objects lie in each other more than ``levels`` deep."""
    if isinstance(value, Mapping):
        inner: Iterable[JsonValue] = value.values()
    elif isinstance(value, list):
        inner = value
    else:
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)
