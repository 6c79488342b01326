"""An action as one line of text, and back: the compact grammar that our own models write.

``mail.move id=m27; folder=archive`` is ``target.operation`` with its parameters; ``user.finish`` has none.
Targets, operations and keys are identifiers. A value is written as it is, with ``\\``, ``;``, ``=`` and line breaks
escaped by a backslash. Numbers are written as text, lists of plain values joined by commas, everything else as
JSON; parsing yields strings only, and the environment converts them. The thought is not written.
"""

import json
import re
from collections.abc import Mapping

from upturn.errors import RecordError
from upturn.records import Action, JsonValue

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_CALL = re.compile(rf"\s*({_NAME})\.({_NAME})(?: (.*))?\Z", re.DOTALL)
_KEY = re.compile(rf"{_NAME}\Z")
# Values end at an unescaped semicolon; one pass over pairs "backslash + anything" and single characters.
_PARAMETER = re.compile(r"((?:\\.|[^\\;])*)(;|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"\\": "\\\\", ";": "\\;", "=": "\\=", "\n": "\\n", "\r": "\\r"}
_UNESCAPED = {"n": "\n", "r": "\r"}


def value_text(value: JsonValue) -> str:
    """The value as the text that ``read_call`` returns for it."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return ",".join(value_text(item) for item in value)
    return json.dumps(value, ensure_ascii=False)


def write_call(action: Action) -> str:
    """The action as one line; raises RecordError when a name in it is not an identifier."""
    parts = [_identifier(action.target, "target"), ".", _identifier(action.operation, "operation")]
    separator = " "
    for key, value in action.parameters.items():
        escaped = "".join(_ESCAPED.get(character, character) for character in value_text(value))
        parts += [separator, _identifier(key, "parameter"), "=", escaped]
        separator = "; "
    return "".join(parts)


def read_call(text: str) -> Action | None:
    """The action in a line of text; None when it is not a call. Never raises."""
    match = _CALL.match(text)
    if match is None:
        return None
    target, operation, rest = match.groups()
    parameters = {} if rest is None else _read_parameters(rest)
    return None if parameters is None else Action(target, operation, parameters)


def _read_parameters(text: str) -> Mapping[str, JsonValue] | None:
    parameters: dict[str, JsonValue] = {}
    start = 0
    while True:
        match = _PARAMETER.match(text, start)
        if match is None:
            return None
        key, equals, value = match.group(1).partition("=")
        key = key.lstrip(" ")
        if not equals or not _KEY.match(key) or key in parameters or _has_bare_equals(value):
            return None
        parameters[key] = _ESCAPE.sub(_unescape, value) if "\\" in value else value
        if not match.group(2):
            return parameters
        start = match.end()


def _has_bare_equals(value: str) -> bool:
    return "=" in value and "=" in _ESCAPE.sub("", value)


def _unescape(match: re.Match[str]) -> str:
    return _UNESCAPED.get(match.group(1), match.group(1))


def _identifier(name: str, what: str) -> str:
    if not _KEY.match(name):
        raise RecordError(f"an action's {what} must be an identifier ({_NAME}), got {name!r}; it cannot be written")
    return name
