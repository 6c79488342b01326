"""Types of arguments in formats that write every value as text, restored from the tool's JSON Schema."""

import json
from collections.abc import Mapping

from upturn.records import JsonValue, Tool

_TYPES: Mapping[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
"""Python's types of JSON values, by their name in a schema. Strings stay text."""


def typed_arguments(arguments: Mapping[str, JsonValue], tool: Tool) -> dict[str, JsonValue]:
    """The arguments with texts converted where the tool's schema has one type for them and the text is such a
    value.

    Everything else stays text: the environment converts or refuses it.
    """
    return {key: _typed(value, tool.properties.get(key)) for key, value in arguments.items()}


def _typed(value: JsonValue, schema: JsonValue) -> JsonValue:
    named = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(value, str) or not isinstance(named, str) or named not in _TYPES:
        return value
    try:
        parsed: JsonValue = json.loads(value)
        json.dumps(parsed, allow_nan=False)
    except (ValueError, RecursionError):
        return value
    if isinstance(parsed, bool) and named != "boolean":
        return value
    return parsed if isinstance(parsed, _TYPES[named]) else value
