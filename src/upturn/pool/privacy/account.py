"""Payment card numbers and IBANs, by their form and checksum."""

import re
from collections.abc import Iterator

from upturn.pool.privacy.checksum import has_iban_checksum, has_luhn
from upturn.pool.privacy.digit_run import DigitRun
from upturn.pool.privacy.finding import Finding
from upturn.pool.privacy.marks import is_card_pseudonym, is_iban_pseudonym

_SEPARATOR = r"[ .\-\u00a0\u2009\u202f\u2010-\u2013]"
_CARD = re.compile(
    rf"(?:3[47]\d\d({_SEPARATOR}?)\d{{6}}\1\d{{5}}"
    rf"|3[0689]\d\d({_SEPARATOR}?)\d{{6}}\2\d{{4}}"
    rf"|[2-6]\d{{3}}({_SEPARATOR}{{1,2}})\d{{4}}\3\d{{4}}\3\d{{4}}(?:\3\d{{3}})?"
    r"|[2-6]\d{13,18})(?![\w]|[.]\d)"
)
_SHORT_CARD = re.compile(r"4\d{12}(?!\d)")
_SHORT_CONTEXT = re.compile(r"(?:card|visa|credit|debit|karte)[^\d\n]{0,20}$", re.IGNORECASE)
_BRANDS = re.compile(r"4|5[0-8]|6|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|3[47]|35(?:2[89]|[3-8])|3(?:0[0-5]|[689])")
"""Issuer prefixes: Visa, Mastercard, Maestro, Discover, UnionPay, American Express, JCB, Diners."""
_IBAN = re.compile(r"[A-Za-z]{2}\d{2}(?<![A-Za-z0-9]....)(?:[ \-\u00a0]?[A-Za-z0-9]{1,4}){3,9}")
_IBAN_LENGTHS = dict(
    pair.split(":")
    for pair in [
        "AD:24",
        "AE:23",
        "AL:28",
        "AT:20",
        "AZ:28",
        "BA:20",
        "BE:16",
        "BG:22",
        "BH:22",
        "BR:29",
        "BY:28",
        "CH:21",
        "CR:22",
        "CY:28",
        "CZ:24",
        "DE:22",
        "DK:18",
        "DO:28",
        "EE:20",
        "EG:29",
        "ES:24",
        "FI:18",
        "FO:18",
        "FR:27",
        "GB:22",
        "GE:22",
        "GI:23",
        "GL:18",
        "GR:27",
        "GT:28",
        "HR:21",
        "HU:28",
        "IE:22",
        "IL:23",
        "IQ:23",
        "IS:26",
        "IT:27",
        "JO:30",
        "KW:30",
        "KZ:20",
        "LB:28",
        "LC:32",
        "LI:21",
        "LT:20",
        "LU:20",
        "LV:21",
        "LY:25",
        "MC:27",
        "MD:24",
        "ME:22",
        "MK:19",
        "MR:27",
        "MT:31",
        "MU:30",
        "NL:18",
        "NO:15",
        "PK:24",
        "PL:28",
        "PS:29",
        "PT:25",
        "QA:29",
        "RO:24",
        "RS:22",
        "SA:24",
        "SC:31",
        "SE:24",
        "SI:19",
        "SK:24",
        "SM:27",
        "ST:25",
        "SV:28",
        "TL:23",
        "TN:24",
        "TR:26",
        "UA:29",
        "VA:22",
        "VG:24",
        "XK:20",
    ]
)
"""Characters of an IBAN by country (SWIFT IBAN registry)."""


def cards(text: str, runs: list[DigitRun]) -> Iterator[Finding]:
    """Yields payment card numbers; ``runs`` are the parts of the text with many digits."""
    for start, stop, length in runs:
        if length < 13:
            continue
        for match in _CARD.finditer(text, start, stop):
            digits = "".join(filter(str.isdigit, match[0]))
            is_card = _BRANDS.match(digits) and has_luhn(digits) and not is_card_pseudonym(digits)
            if is_card and _is_start(text, match.start()):
                yield Finding("card", match.start(), match.end())
        for match in _SHORT_CARD.finditer(text, start, stop):
            before = text[max(0, match.start() - 30) : match.start()]
            if _is_start(text, match.start()) and has_luhn(match[0]) and _SHORT_CONTEXT.search(before):
                yield Finding("card", match.start(), match.end())


def ibans(text: str) -> Iterator[Finding]:
    """Yields international bank account numbers."""
    for match in _IBAN.finditer(text):
        length = int(_IBAN_LENGTHS.get(match[0][:2].upper(), 0))
        if not length:
            continue
        iban, stop = "", match.start()
        for index, character in enumerate(match[0], match.start()):
            if character.isalnum():
                iban, stop = iban + character, index + 1
            if len(iban) == length:
                break
        is_whole = not text[stop : stop + 1].isalnum()
        if len(iban) == length and is_whole and has_iban_checksum(iban) and not is_iban_pseudonym(iban):
            yield Finding("iban", match.start(), stop)


def _is_start(text: str, start: int) -> bool:
    """Whether no other number or word continues into the position."""
    before = text[max(0, start - 2) : start]
    return not (before[-1:].isalnum() or before[-1:] == "_" or (before[-1:] in (".", "-") and before[:1].isdigit()))
