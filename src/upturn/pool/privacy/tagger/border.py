"""The borders of a name or an address, starting from the part that the network found.

To a name belongs the next word with a capital that is no ordinary word; ordinary words at its ends, such as a
title, do not. To an address belong the postal code behind a town and the number before a street.
"""

import re

from upturn.pool.privacy.finding import FindingKind
from upturn.pool.privacy.tagger.feature import Lexicon

_CODE_BEHIND = re.compile(r"[ ,\n]{1,2}(?:[A-Z]{2,3} )?\d{4,6}(?:-\d{3,4})?(?![\w@.:/-])")
_NUMBER_BEFORE = re.compile(r"(?<![\w.:/-])\d{1,5}[A-Za-z]?(?:, | )$")
_WORD_BEHIND = re.compile(r"(?:[ -]|-| [A-Z]\. )([^\W\d_]{2,}(?:['’][^\W\d_]+)?)(?![\w(@])")
_WORD_BEFORE = re.compile(r"(?<![\w.@/'-])([^\W\d_]{2,})(?:[ -]| [A-Z]\. )$")
_WORD = re.compile(r"[^\W\d_]+")
_IN_NUMBER = re.compile(r"[\w.:/-]$")
"""What stands before the last part of another number."""
_LAST_WORD = re.compile(r"([^\W\d_]+) $")
_ARTICLES = frozenset((
    "the", "a", "an", "das", "dem", "des", "die", "ein", "eine", "einen", "einem", "einer", "mein", "meine",
    "dein", "kein", "unser", "unsere", "ihr", "ihre", "my", "your", "our", "their", "un", "une", "les", "der",
))  # fmt: skip
"""Words before a noun with a capital, and not before a single name."""
_OBJECTS = _ARTICLES | frozenset((
    "this", "that", "these", "those", "me", "it", "all", "any", "every", "each", "both", "some", "its", "his",
    "her", "diese", "diesen", "dieses", "alle", "mir", "mich", "ce", "cette", "ces", "tous", "el", "la", "los",
    "las",
))  # fmt: skip
"""Words behind a verb that begins a sentence, such as `Renew my`."""
_BEGIN = re.compile(r"(?:^|[.!?:\n\"“>]\s*|[-*•] )$")
_NEXT = re.compile(r" ([^\W\d_]+)")
_TITLES = frozenset((
    "mr", "mrs", "ms", "miss", "dr", "prof", "sir", "madam", "herr", "frau", "herrn", "monsieur", "madame",
    "mme", "mlle", "señor", "señora", "sr", "sra", "senhor", "senhora", "signor", "signora", "signore",
    "meneer", "mevrouw", "pan", "pani", "bay", "bayan", "dear", "hi", "hello", "hey", "regards", "gruß",
    "grüße", "cordialement", "saludos", "saluti", "groet", "thanks", "danke", "merci", "gracias", "grazie",
    "obrigado", "obrigada", "apologies", "attendees", "present",
))  # fmt: skip
"""Titles and words of greeting, which stand beside names and are none."""
_REACH = 40
_MOST = 3
"""Words on either side."""


def bordered(kind: FindingKind, text: str, start: int, stop: int, *, lexicon: Lexicon) -> tuple[int, int]:
    """Returns start and stop of the finding; equal ones = it is none."""
    if kind == "address":
        if text[start].isdecimal() and _IN_NUMBER.search(text[max(0, start - 1) : start]):
            return start, start
        behind, before = _CODE_BEHIND.match(text, stop), _NUMBER_BEFORE.search(text[max(0, start - _REACH) : start])
        return start - (len(before[0]) if before else 0), behind.end() if behind else stop
    if kind != "person":
        return start, stop
    is_noun = text[start:stop].split(maxsplit=1)[0].lower() in _ARTICLES
    start, stop = _trimmed(text, start, stop, lexicon)
    if start < stop and _is_verb(text, start, stop, lexicon):
        return start, start
    article = _LAST_WORD.search(text[max(0, start - _REACH) : start])
    if is_noun or (article is not None and article[1].lower() in _ARTICLES and text[start:stop].isalpha()):
        return start, start
    return _extended(text, start, stop, lexicon) if start < stop and text[start].isupper() else (start, stop)


def _trimmed(text: str, start: int, stop: int, lexicon: Lexicon) -> tuple[int, int]:
    """Returns the borders without ordinary words at the ends; equal ones if all are."""
    colon = text.rfind(": ", start, stop)
    start = start if colon < 0 else colon + 2
    words = [word for word in _WORD.finditer(text, start, stop) if len(word[0]) > 1 or word[0].isupper()]
    names = [word for word in words if len(word[0]) > 1 and not _is_ordinary(word[0], lexicon)]
    if not words:
        return start, stop  # letters of a script without words
    if not names:
        return start, start
    is_first, is_last = names[0] is words[0], names[-1] is words[-1]
    initial = next((word for word in words if word.end() < names[0].start() and len(word[0]) == 1), None)
    start = start if is_first else (initial or names[0]).start()
    return start, stop if is_last else names[-1].end()


def _is_verb(text: str, start: int, stop: int, lexicon: Lexicon) -> bool:
    """Whether it is one word that no list has, at the begin of a sentence and before an object."""
    if not lexicon.is_unknown_capital(text[start:stop]) or not _BEGIN.search(text[max(0, start - _REACH) : start]):
        return False
    behind = _NEXT.match(text, stop)
    return behind is not None and behind[1] in _OBJECTS


def _extended(text: str, start: int, stop: int, lexicon: Lexicon) -> tuple[int, int]:
    for _ in range(_MOST):
        match = _WORD_BEHIND.match(text, stop)
        if match is None or not _is_name(match[1], lexicon):
            break
        stop = match.end()
    for _ in range(_MOST):
        match = _WORD_BEFORE.search(text[max(0, start - _REACH) : start])
        if match is None or not _is_name(match[1], lexicon):
            break
        start -= len(match[0])
    return start, stop


def _is_name(word: str, lexicon: Lexicon) -> bool:
    return word[0].isupper() and not _is_ordinary(word, lexicon)


def _is_ordinary(word: str, lexicon: Lexicon) -> bool:
    return word.lower() in _TITLES or lexicon.is_ordinary(word)
