"""Tokens: words, numbers, and what stands between them; every character belongs to exactly one token.

A word is a run of letters with their marks; letters of Chinese, Japanese (but katakana) and Korean are words of
their own. An underscore, a hyphen and an apostrophe stand between words.
"""

import re
from itertools import accumulate
from typing import NamedTuple

_SINGLE = r"\u3005-\u3007\u3041-\u309f\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3"
_KATAKANA = r"\u30a1-\u30fa\u30fc-\u30ff"
_MARKS = (
    r"\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0981-\u0983\u09bc-\u09cd"
    r"\u0a3c-\u0a4d\u0abc-\u0acd\u0b3c-\u0b4d\u0bbe-\u0bcd\u0c3e-\u0c4d\u0cbe-\u0ccd\u0d3e-\u0d4d\u200c\u200d"
)
_LETTER = rf"[^\W\d_{_SINGLE}{_KATAKANA}]"
_TOKEN = re.compile(
    rf"{_LETTER}+(?:[{_MARKS}]+{_LETTER}*)*|[{_SINGLE}]|[{_KATAKANA}]+|\d+"
    rf"|(?:[^\w\\]|_|\\[nrtbf]?)+|."
    , re.DOTALL
)  # fmt: skip
SPACE = " "
"""The piece between most words, which is no token."""
_LONGEST = 40


def pieces_of(text: str) -> list[str]:
    """Returns the tokens of a text and the single spaces between them, all characters in order."""
    return _TOKEN.findall(text)


def shortened(piece: str) -> str:
    """Returns what stands for a long piece: its first and last twenty characters; otherwise the piece."""
    return piece if len(piece) <= _LONGEST else piece[:20] + piece[-20:]


class Tokens(NamedTuple):
    """The tokens of a text, without the single spaces between them."""

    words: list[str]
    """Long ones shortened."""
    starts: list[int]
    """Positions of their first characters."""
    stops: list[int]


def tokens_of(text: str) -> Tokens:
    """Returns the tokens of a text."""
    pieces = pieces_of(text)
    stops = list(accumulate(map(len, pieces)))
    kept = [
        (shortened(piece), stop - len(piece), stop)
        for piece, stop in zip(pieces, stops, strict=True)
        if piece != SPACE
    ]
    return Tokens([word for word, _, _ in kept], [start for _, start, _ in kept], [stop for _, _, stop in kept])
