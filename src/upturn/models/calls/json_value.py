"""Reads a JSON value at a position of a text: strictly, or with repairs that cannot change it.

Repairs: strings in single quotes (if all strings of the value are), Python's constants, control characters inside
strings, and the last brace of an object. Refused: duplicate keys, numbers that are not finite, lone surrogates, a
comma before a closing bracket (an item may be missing), and everything that stops before its end.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from upturn.models.calls.reading import RefusedError, Repair

_BLANKS = " \t\r\n"
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])", re.ASCII)
_CONSTANT = re.compile(r"(?:true|false|null|True|False|None)\b", re.ASCII)
_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_HEX = {"u": re.compile(r"[0-9a-fA-F]{4}"), "x": re.compile(r"[0-9a-fA-F]{2}")}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "/": "/", "\\": "\\", '"': '"'}
_DEEPEST = 200
"""Nesting depth: as deep as actions are checked, far below Python's recursion limit."""


class JsonPart(NamedTuple):
    """A value in a text."""

    value: Any  # a JSON border
    end: int
    """Index after it."""
    repairs: frozenset[Repair]


class _DuplicateKeyError(ValueError):
    pass


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not finite")
    return number


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text!r} is not JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # Any: a JSON border
    named = dict(pairs)
    if len(named) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateKeyError(next(key for index, key in enumerate(keys) if key in keys[:index]))
    return named


_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates
)


def read_json(text: str, start: int, *, is_call: bool = False) -> JsonPart:
    """The JSON value that starts at ``start`` (after blanks).

    ``is_call``: the value is a call, whose last brace may be missing at the end of the text. Raises RefusedError.
    """
    start = skip_blanks(text, start)
    try:
        value, end = _DECODER.raw_decode(text, start)
    except _DuplicateKeyError as exc:
        raise _duplicate(str(exc)) from exc
    except (ValueError, RecursionError):
        parser = ValueParser(text, start, is_call=is_call)
        value, end = parser.value(0), parser.position
        check_unicode(value)
        return JsonPart(value, end, frozenset(parser.repairs))
    check_unicode(value)
    return JsonPart(value, end, frozenset())


def skip_blanks(text: str, position: int) -> int:
    """The index of the next character that is not blank."""
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    return position


def check_unicode(value: object) -> None:
    """Raises RefusedError for a value with a lone surrogate, which cannot be encoded."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        raise RefusedError("bad_syntax", "a value is not Unicode text, or nested too deep") from exc


def put(mapping: dict[str, Any], key: str, value: Any) -> None:
    """Adds the key; raises RefusedError where it exists: which value is meant is unknown."""
    if key in mapping:
        raise _duplicate(key)
    mapping[key] = value


def _duplicate(key: str) -> RefusedError:
    return RefusedError("duplicate_key", f"{key[:40]!r} occurs twice")


class ValueParser:
    """A recursive reader of one value; ``position`` advances behind it. Collects ``repairs``."""

    def __init__(self, text: str, position: int, *, is_call: bool = False, is_python: bool = False) -> None:
        """``is_python``: quotes of both kinds, Python's constants and escapes, and line breaks in strings are
        right."""
        self.text, self.position = text, position
        self.repairs: set[Repair] = set()
        self._is_call, self._is_python = is_call, is_python
        self._quote = ""
        """The quotes of all strings; empty = none was read, or both are right."""

    def value(self, depth: int) -> Any:
        """The value at the position."""
        if depth > _DEEPEST:
            raise RefusedError("bad_syntax", "a value is nested too deep")
        self.blanks()
        character = self.text[self.position : self.position + 1]
        if character == "{":
            return self._object(depth)
        if character == "[":
            return self._array(depth)
        if character and character in "\"'":
            return self.string()
        return self._scalar()

    def blanks(self) -> None:
        """Skips blanks."""
        self.position = skip_blanks(self.text, self.position)

    def take(self, expected: str) -> bool:
        """Whether the text continues with ``expected`` (after blanks), which is then skipped."""
        self.blanks()
        if not self.text.startswith(expected, self.position):
            return False
        self.position += len(expected)
        return True

    def failure(self, expected: str) -> RefusedError:
        """The refusal of what follows."""
        self.blanks()
        following = self.text[self.position : self.position + 20]
        if not following:
            return RefusedError("unclosed", f"the call stops where {expected} should follow")
        return RefusedError("bad_syntax", f"{expected} should follow instead of {following!r}")

    def items(self, close: str, item: Callable[[], None], may_end: Callable[[], bool] = lambda: False) -> None:
        """Calls ``item`` at each of the items separated by commas, and skips ``close``.

        ``may_end``: whether ``close`` may be missing after an item.
        """
        if self.take(close):
            return
        while True:
            item()
            if self.take(close) or may_end():
                return
            if not self.take(","):
                raise self.failure(f"',' or {close!r}")

    def string(self) -> str:
        """The quoted text at the position."""
        quote = self.text[self.position]
        if not self._is_python:
            if self._quote and quote != self._quote:
                raise self.failure(f"a string in {self._quote}")
            self._quote = quote
            if quote == "'":
                self.repairs.add("single_quotes")
        self.position += 1
        pieces: list[str] = []
        while True:
            character = self.text[self.position : self.position + 1]
            if not character:
                raise RefusedError("unclosed", "the call stops inside a string")
            self.position += 1
            if character == quote:
                return _joined("".join(pieces))
            if character == "\\":
                pieces.append(self._escape(quote))
                continue
            if character < " " and not self._is_python:
                self.repairs.add("control_characters")
            pieces.append(character)

    def _escape(self, quote: str) -> str:
        character = self.text[self.position : self.position + 1]
        self.position += 1
        if character == quote or (character in _ESCAPES and not (self._is_python and character == "/")):
            return _ESCAPES.get(character, character)
        digits = _HEX[character].match(self.text, self.position) if character in _HEX else None
        if digits and (character == "u" or self._is_python):
            self.position = digits.end()
            return chr(int(digits.group(), 16))
        if self._is_python and character and character not in "avxuUN01234567'\"\n":
            return f"\\{character}"  # as in Python, and as templates write a backslash
        raise RefusedError("bad_syntax", f"'\\{character}' is no escape in a string")

    def _object(self, depth: int) -> dict[str, Any]:
        self.position += 1
        named: dict[str, Any] = {}

        def member() -> None:
            self.blanks()
            if self.text[self.position : self.position + 1] not in {'"', "'"}:
                raise self.failure("a key in quotes")
            key = self.string()
            if not self.take(":"):
                raise self.failure("':'")
            put(named, key, self.value(depth + 1))

        def may_end() -> bool:
            """Whether the call ends here without its brace, after complete arguments.

            Not with braces inside the arguments: the missing one could be among them.
            """
            arguments = named.get("arguments", named.get("parameters"))
            if depth or not self._is_call or not isinstance(arguments, dict) or _has_brace(arguments.values()):
                return False
            self.blanks()
            if self.position < len(self.text):
                return False
            self.repairs.add("unclosed")
            return True

        self.items("}", member, may_end)
        return named

    def _array(self, depth: int) -> list[Any]:
        self.position += 1
        values: list[Any] = []
        self.items("]", lambda: values.append(self.value(depth + 1)))
        return values

    def _scalar(self) -> Any:
        number = _NUMBER.match(self.text, self.position)
        if number is not None:
            self.position = number.end()
            return read_number(number.group())
        constant = _CONSTANT.match(self.text, self.position)
        if constant is None:
            raise self.failure("a value")
        if constant.group()[0].isupper() and not self._is_python:
            self.repairs.add("python_constants")
        self.position = constant.end()
        return _CONSTANTS[constant.group()]


def _has_brace(values: Iterable[object]) -> bool:
    return re.search("[{}]", json.dumps([*values])) is not None


def read_number(text: str) -> int | float:
    """The number; raises RefusedError where it is not finite or absurdly long."""
    try:
        return _finite(text) if re.search("[.eE]", text) else int(text)
    except ValueError as exc:
        raise RefusedError("bad_syntax", f"{text[:20]!r} is no finite number") from exc


def _joined(text: str) -> str:
    """The text with pairs of escaped surrogates joined."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
