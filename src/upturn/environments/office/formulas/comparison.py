"""How values of cells compare: order, equality, and the conditions that COUNTIF and its like are given.

Texts compare without regard to case, and are above all numbers and below TRUE and FALSE. Numbers are equal when
fifteen digits are, which is what Excel keeps. In conditions and exact look-ups ``*`` stands for anything, ``?`` for
one character, ``~`` takes their meaning from both.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from upturn.environments.office.state import CellError, Value, parse_value

MAX_CONDITION = 255
"""Characters, as Excel has it."""
Test = Callable[[Value], bool]
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)?(.*)", re.DOTALL)
_WILD = re.compile(r"[*?~]")
_PIECE = re.compile(r"~.|.", re.DOTALL)


def rank(value: Value) -> int:
    """What kinds of values come in: numbers, texts, truths, errors, and empty cells last."""
    if isinstance(value, bool):
        return 2
    if isinstance(value, float):
        return 0
    if isinstance(value, str):
        return 1
    return 4 if value is None else 3


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1; an empty cell is what the other side has as its nothing: 0, no text, FALSE."""
    if left is None:
        left = nothing_like(right)
    if right is None:
        right = nothing_like(left)
    left_key, right_key = sort_key(left), sort_key(right)
    return (left_key > right_key) - (left_key < right_key)


def sort_key(value: Value) -> tuple[int, float | str]:
    """Orders values of any kinds."""
    return rank(value), comparable(value)


def nothing_like(value: Value) -> Value:
    """What stands for an empty cell beside this value."""
    if isinstance(value, bool):
        return False
    return "" if isinstance(value, str) else 0.0


def comparable(value: Value) -> float | str:
    """What orders values of one kind."""
    if isinstance(value, str):
        return value.casefold()
    if isinstance(value, CellError):
        return value.value
    return _rounded(float(value)) if value is not None else 0.0


def _rounded(value: float) -> float:
    return value if value.is_integer() else float(f"{value:.15g}")


def is_same(left: Value, right: Value) -> bool:
    """Whether both are of one kind and equal."""
    return sort_key(left) == sort_key(right)


def parse_condition(wanted: Value) -> Test:
    """What ``>5``, ``<>north``, ``b*`` or a value that must be met test."""
    if wanted is None:
        wanted = 0.0
    if not isinstance(wanted, str):
        return _equal_to(wanted)
    match = _CONDITION.fullmatch(wanted)
    assert match is not None  # the pattern takes every text
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
            return lambda value: False  # noqa: ARG005  # nothing is above or below nothing


def _equality(text: str) -> Test:
    wanted = parse_value(text)
    return text_matcher(text) if isinstance(wanted, str) else _equal_to(wanted)


def _equal_to(wanted: Value) -> Test:
    """Texts that look like the number count as well."""
    return lambda value: is_same(parse_value(value) if isinstance(value, str) else value, wanted)


def _inequality(sign: str, limit: Value) -> Test:
    def test(value: Value) -> bool:
        if rank(value) != rank(limit):
            return False
        order = compare(value, limit)
        return (order < 0 if "<" in sign else order > 0) or ("=" in sign and order == 0)

    return test


def text_matcher(text: str) -> Test:
    """Whether a value is this text, in which ``*``, ``?`` and ``~`` have their meaning."""
    if not _WILD.search(text):
        plain = text.casefold()
        return lambda value: isinstance(value, str) and value.casefold() == plain
    pattern = _pattern(text)
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


@lru_cache(maxsize=1_024)
def _pattern(text: str) -> re.Pattern[str]:
    """Between stars the first place that fits is taken for good, which finds a match where there is one: no pattern
    takes longer than text times pattern."""
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
