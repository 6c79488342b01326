"""Made-up names: the words that stand for names in pseudonyms, which detection recognises and does not report.

A made-up word has four syllables of a consonant and a vowel, such as ``Bakolime``; the last one follows from the
others, so that a real word of this form is taken for one with a probability of 1 in 80.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import TypeAlias
from zlib import crc32

Below: TypeAlias = Callable[[int], int]
"""Returns a number from 0 to below its argument."""

_CONSONANTS, _VOWELS = "bdfgklmnprstvzhj", "aeiou"
_SYLLABLES = tuple(consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS)
_WORD = re.compile(r"[^\W\d_]+")
_PIECE = re.compile(r"[^\W\d_]+|\d+")
_MADE = re.compile(rf"(?:[{_CONSONANTS}][{_VOWELS}]){{4}}")
_KEPT: Mapping[str, frozenset[str]] = {
    "person": frozenset((
        "van", "der", "den", "de", "da", "di", "do", "dos", "das", "del", "la", "von", "zu", "al", "el", "bin",
        "ibn", "jr", "sr", "iii",
    )),
    "address": frozenset((
        "street", "road", "avenue", "lane", "drive", "court", "place", "square", "way", "boulevard", "suite",
        "apt", "apartment", "unit", "floor", "room", "flat", "box", "po", "st", "rd", "ave", "ln", "dr", "ct",
        "blvd", "nd", "th", "north", "south", "east", "west", "straße", "strasse", "rue", "calle", "via",
        "viale", "rua", "ulica", "ul", "plaza", "platz", "weg", "allee", "avenida", "building", "block",
        "house", "no",
    )),
    "organisation": frozenset((
        "ltd", "limited", "inc", "llc", "corp", "corporation", "company", "co", "plc", "llp", "gmbh", "ag",
        "kg", "sa", "sarl", "sas", "srl", "spa", "bv", "nv", "ab", "as", "oy", "the", "of", "and", "university",
        "college", "institute", "school", "hospital", "bank", "foundation", "group", "holdings", "department",
        "ministry",
    )),
}  # fmt: skip
"""Words that stay in a pseudonym of the kind."""
_MASKS = frozenset((
    "person", "address", "organisation", "email", "phone", "card", "iban", "id", "ip", "mac", "birth", "date",
    "key", "erased",
))  # fmt: skip
_STAYING = frozenset().union(*_KEPT.values())
_SHORT = 2
"""Letters of words that say nothing beside a made-up one, such as parts of postal codes."""


def make_word(below: Below) -> str:
    """Returns a made-up word in lower case."""
    start = "".join(_SYLLABLES[below(len(_SYLLABLES))] for _ in range(3))
    return start + _last(start)


def is_made_word(word: str) -> bool:
    """Whether ``make_word`` can have made the word, in any case."""
    lower = word.lower()
    return len(lower) == 8 and bool(_MADE.fullmatch(lower)) and _last(lower[:6]) == lower[6:]


def is_made_span(text: str) -> bool:
    """Whether a text is a pseudonym or a mask: made-up words and what may stand beside them, and nothing else."""
    words = [word for word in _WORD.findall(text) if len(word) > 1]
    made = [is_made_word(word) for word in words]
    if any(made):
        pairs = zip(words, made, strict=True)
        return all(is_made or len(word) <= _SHORT or word.lower() in _STAYING for word, is_made in pairs)
    return bool(words) and all(word.isupper() and word.lower() in _MASKS for word in words)


def made_name(kind: str, text: str, draw: Callable[[str], Below]) -> str:
    """Returns the text of a finding with made-up words and other numbers, in its casing and with its signs.

    ``draw`` returns the source of what stands for a word or number, the same for all its spellings. So ``SILVA,
    Maria`` becomes the same words as ``maria silva``. Single letters become letters.
    """
    kept = _KEPT[kind]
    if not any(len(word) > 1 and word.lower() not in kept for word in _WORD.findall(text)):
        kept = frozenset()

    def piece(match: re.Match[str]) -> str:
        word = match[0]
        if word.lower() in kept:
            return word
        below = draw(_normal(word))
        if word[0].isdecimal():
            return str(1 + below(9)) + "".join(str(below(10)) for _ in word[1:])
        if len(word) == 1 and ord(word) < 0x2E80:
            return _in_case(word, chr(97 + below(26)))
        if len(word) <= _SHORT and kind == "address" and word.isascii() and kept:
            return "".join(_in_case(letter, chr(97 + below(26))) for letter in word)
        return _in_case(word, make_word(below))

    return _PIECE.sub(piece, text)


def _normal(word: str) -> str:
    """Returns what spellings of a word have in common: no case, no accents."""
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _in_case(like: str, word: str) -> str:
    if like.isupper():
        return word.upper()
    return word.capitalize() if not like.islower() else word


def _last(start: str) -> str:
    return _SYLLABLES[crc32(f"upturn {start}".encode()) % len(_SYLLABLES)]
