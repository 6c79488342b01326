"""Sanitises untrusted actions, so that executing and recording them never raises later.

Order of checks: the action round-trips through JSON; it is short enough; it is not nested too deep. An action that
fails one is executed as ``MALFORMED``, so that the environment answers with an error observation.
"""

from collections.abc import Iterable, Mapping

from upturn.errors import RecordError
from upturn.models import write_call
from upturn.records import Action, JsonValue, fields_json, from_fields

MALFORMED = Action(target="", operation="")
"""Sent to an environment in place of unparsable text: no environment supports it, so the result is an error."""
_PROBLEM = "problem"
MAX_ACTION_LENGTH = 2**20
"""Characters of a text, and of an action as JSON: far above any real action, and affordable in every turn."""
MAX_ACTION_DEPTH = 64
"""Nesting depth of lists and objects in an action's parameters. JSON is read to 200; trajectories and states add
levels."""


def executed_action(action: Action | None, refusal: str = "") -> Action:
    """What an environment gets for a turn: its action, or ``MALFORMED`` with the parser's reason if it has one."""
    if action is not None:
        return action
    return Action(MALFORMED.target, MALFORMED.operation, {_PROBLEM: refusal}) if refusal else MALFORMED


def malformed_text(action: Action, usual: str) -> str:
    """The message about an action without an operation: why the text was no call, or ``usual`` where that is
    unknown."""
    problem = action.parameters.get(_PROBLEM)
    return f"no call was made: {problem}" if isinstance(problem, str) else usual


def typed_action(action: object) -> Action:
    """The action itself; ``MALFORMED`` where it is not an action or its parts have wrong types."""
    if not isinstance(action, Action) or not isinstance(action.parameters, Mapping):
        return MALFORMED
    return action if isinstance(action.target, str) and isinstance(action.operation, str) else MALFORMED


def recordable_text(text: str) -> str:
    """The text, cut to ``MAX_ACTION_LENGTH`` characters; invalid Unicode becomes escapes."""
    return text[:MAX_ACTION_LENGTH].encode("utf-8", "backslashreplace").decode()


def recordable_action(action: Action) -> Action | None:
    """A copy of the action; None if it is not JSON, not Unicode, too long or too deep."""
    try:
        encoded = fields_json(action)
        copied = from_fields(Action, encoded)
    except RecordError:
        return None
    is_within_limits = len(encoded) <= MAX_ACTION_LENGTH and not _is_deeper(copied.parameters, MAX_ACTION_DEPTH)
    return copied if is_within_limits and copied == action else None


def action_text(action: Action) -> str:
    """The action as one line; only its names where it cannot be written."""
    try:
        return write_call(action)
    except Exception:  # noqa: BLE001  names outside the grammar, or of any type: the environment refuses them
        return f"{action.target!s:.200}.{action.operation!s:.200}".removeprefix(".")


def _is_deeper(value: JsonValue | Mapping[str, JsonValue], levels: int) -> bool:
    """Whether lists and objects are nested more than ``levels`` deep."""
    if isinstance(value, Mapping):
        inner: Iterable[JsonValue] = value.values()
    elif isinstance(value, list):
        inner = value
    else:
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)
