"""Dates of birth, which need a word such as ``born``, ``dob`` or ``geboren`` next to them.

Not reported: 1 January of a year, the form to which pseudonyms generalise a date of birth.
"""

import re
from collections.abc import Iterator

from upturn.pool.privacy.finding import Finding
from upturn.pool.privacy.words import lowered

_MONTHS = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec|mär|mai|okt|dez|janv|févr|avr|juil|août|déc"
    r"|ene|abr|ago|set|dic|gen|mag|giu|lug|ott)[^\W\d_]{0,7}\.?"
)
_DATE = (
    r"(?P<date>\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/. ]\s?\d{1,2}[-/. ]\s?(?:\d{4}|\d{2})|(?:19|20)\d{6}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|º)?[-. ]{{0,2}}(?:of |de |di )?{_MONTHS}[-,. ]{{0,2}}(?:de |del )?\d{{2,4}}"
    rf"|{_MONTHS}\s?\d{{1,2}}(?:st|nd|rd|th)?,?\s?\d{{4}}|\d{{4}}年\d{{1,2}}月\d{{1,2}}日)(?!\d)"
)
_NEXT = re.compile(rf"[^\d\n]{{0,28}}?(?<![\d.]){_DATE}", re.IGNORECASE)
_BEFORE = re.compile(rf"(?<!\d){_DATE}[\s,(\"]{{1,3}}(?:\w{{1,6}} ){{0,2}}$", re.IGNORECASE)
_WORDS = tuple(
    (hint, re.compile(pattern or re.escape(hint)))
    for hint, pattern in {
        "born": r"\bborn\b",
        "birth": "",
        "dob": r"(?:\b|_)dob\b",
        "d.o.b": "",
        "bday": "",
        "b-day": "",
        "gebor": "",
        "geburt": "",
        "geb.": r"\bgeb\.",
        "né le": "",
        "née le": "",
        "naissance": "",
        "nacimiento": "",
        "nacid": r"\bnacid[oa]\b",
        "nat": r"\bnat[oa] (?:il|a)\b",
        "nascita": "",
        "nascimento": "",
        "nascid": r"\bnascid[oa]\b",
        "出生": "",
        "生年月日": "",
        "урожд": "",
        "рожд": "",
    }.items()
)
"""Words next to a date of birth in lower case: a text to look for first, and its pattern ("" = the text)."""
_BEHIND = frozenset({"birth", "dob", "geburt"})
"""Those that may follow their date."""
_REACH = 40
_GENERALISED = re.compile(r"\d{4}-01-01$|0?1[/.-]0?1[/.-]\d{4}$|(?:19|20)\d\d0101$")


def birth_dates(text: str) -> Iterator[Finding]:
    """Yields dates of birth."""
    lower = lowered(text)
    for hint, pattern in _WORDS:
        for word in pattern.finditer(lower) if hint in lower else ():
            yield from _found(_NEXT.match(text, word.end()), 0)
            if hint in _BEHIND:
                start = max(0, word.start() - _REACH)
                yield from _found(_BEFORE.search(text[start : word.start()]), start)


def _found(match: re.Match[str] | None, offset: int) -> Iterator[Finding]:
    if match is not None and not _GENERALISED.match(match["date"]):
        yield Finding("birth_date", match.start("date") + offset, match.end("date") + offset)
