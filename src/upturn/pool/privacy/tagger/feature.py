"""Features of a token: the word itself if it is a frequent one, whether it is known as a word or as a name, hashed
parts of it, its casing, script and length.

The hash is CRC-32, so that a token has the same features on every machine.
"""

import unicodedata
from collections.abc import Iterator
from zlib import crc32

import numpy as np
import numpy.typing as npt

FREQUENT = 8192
"""Numbers of the frequent words, which come first."""
BUCKETS = FREQUENT + 16_384
_LONGEST = 24

Hashes = npt.NDArray[np.uint32]


def hash_of(word: str) -> int:
    """Returns the hash by which a lexicon knows a word, in any case."""
    return crc32(word.lower().encode(errors="surrogatepass"))


class Lexicon:
    """Words that are known, by their hashes: a word is taken for another one with a probability of 10^-5."""

    def __init__(self, frequent: Hashes, words: Hashes, names: Hashes) -> None:
        """``frequent`` words have features of their own; ``words`` are ordinary ones, ``names`` of persons."""
        self._frequent = {number: place for place, number in enumerate(frequent.tolist())}
        self._words, self._names = frozenset(words.tolist()), frozenset(names.tolist())

    def is_ordinary(self, word: str) -> bool:
        """Whether the word is in a list of ordinary words, and in none of names."""
        number = hash_of(word)
        return number in self._words and number not in self._names

    def is_unknown_capital(self, token: str) -> bool:
        """Whether the token is a word with a capital and small letters that no list has."""
        if not (token[0].isupper() and token[1:].islower()):
            return False
        number = hash_of(token)
        return number not in self._words and number not in self._names and number not in self._frequent

    def features(self, token: str, *, is_known: bool = True) -> list[int]:
        """Returns the numbers of the token's features, each below ``BUCKETS``.

        ``is_known``: False = as if no list had the word.
        """
        own: list[int] = []
        names = list(_names(token))
        if token[0].isalpha():
            number = hash_of(token)
            kind = ""
            if is_known:
                own = [self._frequent[number]] if number in self._frequent else []
                kind = f"{number in self._words}{number in self._names}"
            names += [f"known {kind}", f"known {kind} {_case(token)}"]
        parts = (crc32(name.encode(errors="surrogatepass")) for name in names)
        return own + [FREQUENT + part % (BUCKETS - FREQUENT) for part in parts]


def _names(token: str) -> Iterator[str]:
    first = token[0]
    if first.isalpha():
        yield from _word(token)
    elif first.isdecimal():
        yield f"digits {min(len(token), 9)}"
        yield f"digits {min(len(token), 9)} {first == '0'}"
        yield f"number {token}" if len(token) <= 2 else f"start {len(token)} {token[:2]}"
    else:
        plain = token if len(token) <= 6 else token[:3] + token[-3:]
        yield f"sign {plain}"
        yield f"first {first}"
        yield f"last {token[-1]}"
        is_line_end = "\n" in token or "\\n" in token
        yield f"signs {is_line_end} {' ' in token}"


def _word(token: str) -> Iterator[str]:
    lower = token.lower()
    folded = _folded(lower)[:_LONGEST]
    case = _case(token)
    script = _script(token[0])
    yield f"case {case} {min(len(token), 12)}"
    yield f"case {case} {script}"
    if script in "hjk":  # one letter says nothing by its parts
        yield f"letter {token[0]}"
        return
    for length in (2, 3, 4):
        yield f"start {folded[:length]}"
        yield f"end {folded[-length:]}"
    padded = f"^{folded}$"
    for start in range(len(padded) - 2):
        yield f"part {padded[start : start + 3]}"


def _folded(lower: str) -> str:
    """Returns the word without accents, for n-grams that spellings have in common."""
    if lower.isascii():
        return lower
    return "".join(sign for sign in unicodedata.normalize("NFD", lower) if not "\u0300" <= sign <= "\u036f")


def _case(token: str) -> str:
    if len(token) == 1:
        return "single upper" if token.isupper() else "single"
    if token.islower():
        return "lower"
    if token.isupper():
        return "upper"
    if token[0].isupper() and token[1:].islower():
        return "title"
    return "mixed title" if token[0].isupper() else "mixed"


_SCRIPTS = (
    (0x250, "l"), (0x370, "o"), (0x400, "g"), (0x530, "c"), (0x590, "o"), (0x600, "e"), (0x780, "a"), (0x900, "o"),
    (0xE00, "d"), (0x1E00, "o"), (0x2000, "l"), (0x3040, "o"), (0x3100, "j"), (0x3400, "o"), (0xA000, "h"),
    (0xAC00, "o"), (0xD7B0, "k"),
)  # fmt: skip
"""Ends of ranges of code points, and a letter for the script."""


def _script(letter: str) -> str:
    code = ord(letter)
    return next((script for end, script in _SCRIPTS if code < end), "o")
