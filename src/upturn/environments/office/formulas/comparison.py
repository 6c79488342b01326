"""Comparison of cell values: order, equality, and the conditions of COUNTIF and similar functions.

Texts compare case-insensitively, above all numbers and below TRUE and FALSE. Numbers are equal if fifteen digits
are, Excel's precision. In conditions and exact look-ups ``*`` matches any text, ``?`` one character, and ``~``
escapes both.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from upturn.environments.office.state import CellError, Value, parse_value

MAX_CONDITION = 255
"""Characters, as in Excel."""
Test = Callable[[Value], bool]
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)?(.*)", re.DOTALL)
_WILD = re.compile(r"[*?~]")
_PIECE = re.compile(r"~.|.", re.DOTALL)


def rank(value: Value) -> int:
    """The order of kinds of values: numbers, texts, booleans, errors, and empty cells last."""
    if isinstance(value, bool):
        return 2
    if isinstance(value, float):
        return 0
    if isinstance(value, str):
        return 1
    return 4 if value is None else 3


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1; an empty cell counts as 0, an empty text or FALSE, like the other side."""
    if left is None:
        left = empty_value_like(right)
    if right is None:
        right = empty_value_like(left)
    left_key, right_key = sort_key(left), sort_key(right)
    return (left_key > right_key) - (left_key < right_key)


def sort_key(value: Value) -> tuple[int, float | str]:
    """A key that orders values of any kinds."""
    return rank(value), comparable(value)


def empty_value_like(value: Value) -> Value:
    """The value of an empty cell in a comparison with this value."""
    if isinstance(value, bool):
        return False
    return "" if isinstance(value, str) else 0.0


def comparable(value: Value) -> float | str:
    """A key that orders values of one kind."""
    if isinstance(value, str):
        return value.casefold()
    if isinstance(value, CellError):
        return value.value
    number = float(value or 0.0)
    return number if number.is_integer() else float(f"{number:.15g}")


def is_same(left: Value, right: Value) -> bool:
    """Whether both are of one kind and equal."""
    return sort_key(left) == sort_key(right)


def parse_condition(wanted: Value) -> Test:
    """The test of a condition such as ``>5``, ``<>north`` or ``b*``, or of equality with a value."""
    if wanted is None:
        wanted = 0.0
    if not isinstance(wanted, str):
        return _equal_to(wanted)
    match = _CONDITION.fullmatch(wanted)
    assert match is not None  # the pattern matches every text
    sign, text = match[1] or "", match[2]
    if not text:
        return _emptiness(sign)
    if sign in ("", "="):
        return _equality(text)
    if sign == "<>":
        equal = _equality(text)
        return lambda value: not equal(value)
    return _inequality(sign, parse_value(text))


def _emptiness(sign: str) -> Test:
    match sign:
        case "":
            return lambda value: value is None or value == ""
        case "=":
            return lambda value: value is None
        case "<>":
            return lambda value: value is not None
        case _:
            return lambda value: False  # noqa: ARG005  # no value is above or below an empty one


def _equality(text: str) -> Test:
    wanted = parse_value(text)
    return text_matcher(text) if isinstance(wanted, str) else _equal_to(wanted)


def _equal_to(wanted: Value) -> Test:
    """A test for the value; texts that spell a number are compared as numbers."""
    return lambda value: is_same(parse_value(value) if isinstance(value, str) else value, wanted)


def _inequality(sign: str, limit: Value) -> Test:
    def test(value: Value) -> bool:
        if rank(value) != rank(limit):
            return False
        order = compare(value, limit)
        return (order < 0 if "<" in sign else order > 0) or ("=" in sign and order == 0)

    return test


def text_matcher(text: str) -> Test:
    """A test for this text, with the wildcards ``*``, ``?`` and ``~``."""
    if not _WILD.search(text):
        plain = text.casefold()
        return lambda value: isinstance(value, str) and value.casefold() == plain
    pattern = _pattern(text)
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


@lru_cache(maxsize=1_024)
def _pattern(text: str) -> re.Pattern[str]:
    """The part between two stars matches at its first occurrence, without backtracking, which is enough to find a
    match: matching takes at most the length of the text times that of the pattern."""
    parts = [""]
    for piece in _PIECE.findall(text):
        if piece == "*":
            parts.append("")
        else:
            parts[-1] += "." if piece == "?" else re.escape(piece[1] if len(piece) > 1 else piece)
    first, *rest = parts
    if not rest:
        return re.compile(first, re.IGNORECASE | re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1] if part)
    return re.compile(f"{first}{middle}.*{rest[-1]}", re.IGNORECASE | re.DOTALL)
