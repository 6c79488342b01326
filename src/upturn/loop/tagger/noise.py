"""Other words around names than those of a template, so that the tagger learns what names look like.

Words outside the parts to find are replaced by others of any language, or by words put together from two.
"""

import random
import re

from upturn.loop.tagger.mark import END, STARTS
from upturn.loop.tagger.prose import dictionary

_PART = re.compile(f"([{''.join(STARTS.values())}][^{END}]*{END})")
_WORD = re.compile(r"[^\W\d_]{2,}|\d{2,}")
_LATIN = ("de", "fr", "es", "it", "nl", "pl", "tr", "sv", "cs", "pt")
_NOISY = 0.55
"""Share of documents with other words."""
_RATES = (0.1, 0.3, 0.6, 0.9)
_MADE_UP = 0.25
"""Share of words in small letters that no dictionary has; with a capital, such a word is mostly a name."""


def with_noise(source: random.Random, text: str) -> str:
    """Returns the marked text with some of its other words replaced."""
    if source.random() > _NOISY:
        return text
    rate = source.choice(_RATES)
    language = source.choice(("en", "en", "en", source.choice(_LATIN)))

    def replaced(match: re.Match[str]) -> str:
        word = match[0]
        if source.random() > rate or ord(word[0]) >= 0x370:
            return word
        if word[0].isdecimal():
            return "".join(source.choice("0123456789") for _ in word)
        has_dictionary_word = not word.islower() or _is_identifier(match)
        return _in_case(word, _word(source, language, 0.0 if has_dictionary_word else _MADE_UP))

    pieces = _PART.split(text)
    return "".join(piece if place % 2 else _WORD.sub(replaced, piece) for place, piece in enumerate(pieces))


def _is_identifier(match: re.Match[str]) -> bool:
    around = match.string[max(0, match.start() - 1) : match.start()] + match.string[match.end() : match.end() + 1]
    return "_" in around or "." in around or "-" in around


def _word(source: random.Random, language: str, made_up: float) -> str:
    words = dictionary(source.choice(("en", "scowl")) if language == "en" else language)
    word = source.choice(words)
    if source.random() >= made_up:
        return word
    other = source.choice(words)
    return word[: max(2, len(word) // 2)] + other[len(other) // 2 :].lower()


def _in_case(like: str, word: str) -> str:
    if like.isupper():
        return word.upper()
    return word.capitalize() if like[0].isupper() else word
