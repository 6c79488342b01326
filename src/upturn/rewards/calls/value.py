"""Values of parameters: their types by JSON Schema, and when two are the same. Pure functions."""

import re
from collections.abc import Mapping
from typing import Any

from upturn.records import JsonValue

_IGNORED = re.compile(r"[ ,./\-_*^]")
_ALIASES = {
    "dict": "object",
    "float": "number",
    "double": "number",
    "int": "integer",
    "long": "integer",
    "list": "array",
    "tuple": "array",
    "str": "string",
    "bool": "boolean",
    "null": "null",
}
"""Names of types that function descriptions use besides those of JSON Schema."""
TYPES = ("object", "number", "integer", "array", "string", "boolean", "null")


def type_of(value: JsonValue) -> str:
    """The type of the value as JSON Schema names it. 5.0 is a ``number`` and no ``integer``."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def type_fault(value: JsonValue, schema: object) -> str:
    """Where and how the value departs from the schema's types, ``[1]: string, not integer``; empty = nowhere.

    Reads ``type``, ``items``, ``properties`` and ``enum`` at any depth, no other keyword. An unknown type and
    ``any`` allow everything.
    """
    if not isinstance(schema, Mapping):
        return ""
    allowed, actual = _allowed(schema.get("type")), type_of(value)
    if allowed and actual not in allowed and not (actual == "integer" and "number" in allowed):
        return f"{actual}, not {' or '.join(allowed)}"
    enum = schema.get("enum")
    if isinstance(enum, list | tuple) and not any(is_same_value(value, item) for item in enum):
        return f"{value!r:.100} is not one of {list(enum)!r:.200}"
    return _nested_fault(value, schema)


def _nested_fault(value: JsonValue, schema: Mapping[str, Any]) -> str:
    if isinstance(value, list):
        faults = {f"[{index}]": type_fault(item, schema.get("items")) for index, item in enumerate(value)}
    elif isinstance(value, Mapping):
        properties = schema.get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        faults = {f".{name}": type_fault(item, known.get(name)) for name, item in value.items()}
    else:
        return ""
    place, fault = next(((place, fault) for place, fault in faults.items() if fault), ("", ""))
    if not fault:
        return ""
    return f"{place}{fault}" if fault[0] in ".[" else f"{place}: {fault}"


def _allowed(declared: object) -> tuple[str, ...]:
    """The types that a schema declares; empty = all, also where it declares one that is unknown."""
    names = declared if isinstance(declared, list | tuple) else (declared,)
    known = tuple(_ALIASES.get(str(name).lower(), str(name).lower()) for name in names)
    return known if all(name in TYPES for name in known) else ()


def is_same_value(value: JsonValue, other: JsonValue) -> bool:
    """Whether two values are the same: numbers by value, lists in order, objects by name, texts by ``plain``.

    True is not 1, and "5" is not 5.
    """
    if isinstance(value, str) and isinstance(other, str):
        return plain(value) == plain(other)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(is_same_value, value, other))
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(is_same_value(value[name], other[name]) for name in value)
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return value == other


def plain(text: str) -> str:
    """The text as BFCL compares it: without spaces and ``,./-_*^``, in lower case, with ``"`` for ``'``."""
    return _IGNORED.sub("", text).lower().replace("'", '"')
