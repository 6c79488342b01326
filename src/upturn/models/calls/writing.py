"""Actions as calls, for formats that are JSON, and the comparison of actions."""

import json

from upturn.errors import RecordError
from upturn.models.call import value_text
from upturn.models.calls.names import call_name
from upturn.records import Action, JsonValue


def json_call(action: Action, name: str | None = None) -> str:
    """The call in the format ``json``; ``name``: the function's, None = the action's.

    Raises RecordError for what JSON or a name cannot hold.
    """
    named = call_name(action) if name is None else name
    return json.dumps({"name": named, "arguments": checked_arguments(action)}, ensure_ascii=False)


def checked_arguments(action: Action) -> dict[str, JsonValue]:
    """The parameters; raises RecordError when JSON or Unicode cannot hold them."""
    arguments = dict(action.parameters)
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise RecordError(f"the parameters of {call_name(action)!r} cannot be written as JSON: {exc}") from exc
    return arguments


def is_same_call(first: Action, second: Action) -> bool:
    """Whether two actions make the same call, comparing values as text and ignoring thoughts."""
    values, others = first.parameters, second.parameters
    return (first.target, first.operation, values.keys()) == (
        second.target,
        second.operation,
        others.keys(),
    ) and all(_is_same_value(value, others[key]) for key, value in values.items())


def _is_same_value(first: JsonValue, second: JsonValue) -> bool:
    """Whether the values are the same as text, or as JSON with keys in any order."""
    if value_text(first) == value_text(second):
        return True
    return not isinstance(first, str) and json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
