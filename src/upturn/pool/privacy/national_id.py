"""Numbers of persons that states give out: social security, tax, identity, health, passport, driving licence.

A number is reported when its form or checksum is unlikely by chance; the others (plain rows of digits, passports)
need a word such as ``SSN`` or ``passport`` in front.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import NamedTuple

from upturn.pool.privacy.checksum import (
    has_chinese_checksum,
    has_cpf_checksum,
    has_ean_checksum,
    has_iso_11_10_checksum,
    has_italian_checksum,
    has_luhn,
    has_verhoeff,
    weighted_sum,
)
from upturn.pool.privacy.digit_run import DigitRun
from upturn.pool.privacy.finding import Finding
from upturn.pool.privacy.marks import is_card_pseudonym, is_id_pseudonym

_S = r"[ .\-\u00a0\u2010-\u2013]"


class _Form(NamedTuple):
    """The form of one country's number."""

    pattern: re.Pattern[str]
    is_valid: Callable[[str], bool]
    """Takes the digits and letters without separators, in upper case."""
    context: re.Pattern[str] | None = None
    """Words that must precede the number; None = none."""


def _form(pattern: str, is_valid: Callable[[str], bool], context: str = "") -> _Form:
    words = re.compile(rf"(?:^|[^A-Za-z])(?:{context})[^\d\n]{{0,24}}$", re.IGNORECASE) if context else None
    return _Form(re.compile(rf"(?:{pattern})(?![\w]|[-.]\d)"), is_valid, words)


def _is_ssn(number: str) -> bool:
    """US social security numbers (no area 000, 666 or 900-999) and taxpayer numbers (9xx-50..99)."""
    area, group, serial = number[:3], number[3:5], number[5:]
    if area[0] == "9":
        return int(group) >= 50 and serial != "0000"
    return area not in ("000", "666") and group != "00" and serial != "0000"


def _is_date(year: str, month: str, day: str) -> bool:
    """Whether the digits are a date; of two digits, any century counts."""
    try:
        date(int(year) if len(year) == 4 else 2000 + int(year), int(month), int(day))
    except ValueError:
        return False
    return True


def _is_nir(number: str) -> bool:
    """French social security number: key = 97 - number mod 97; Corsica's 2A and 2B are 19 and 18."""
    body = number[:13].replace("2A", "19").replace("2B", "18")
    return body.isdigit() and 97 - int(body) % 97 == int(number[13:])


def _is_dni(number: str) -> bool:
    """Spanish DNI and NIE: letter modulo 23."""
    digits = str("XYZ".index(number[0])) + number[1:-1] if number[0] in "XYZ" else number[:-1]
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == number[-1]


def _is_nhs(number: str) -> bool:
    """British NHS number: modulo 11."""
    check = 11 - weighted_sum(number[:9], tuple(range(10, 1, -1))) % 11
    return check % 11 == int(number[9]) and check != 10


def _is_bsn(number: str) -> bool:
    """Dutch BSN: modulo 11."""
    return number != "0" * 9 and weighted_sum(number, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def _is_belgian(number: str) -> bool:
    """Belgian national number: modulo 97, with a leading 2 for births from 2000."""
    return any(97 - int(prefix + number[:9]) % 97 == int(number[9:]) for prefix in ("", "2"))


def _is_pesel(number: str) -> bool:
    """Polish PESEL: weights 1, 3, 7, 9."""
    return weighted_sum(number[:10], (1, 3, 7, 9)) % 10 == -int(number[10]) % 10


def _is_swedish(number: str) -> bool:
    short = number[-10:]
    return _is_date(short[:2], short[2:4], str(int(short[4:6]) % 60).zfill(2)) and has_luhn(short)


def _is_south_african(number: str) -> bool:
    return _is_date(number[:2], number[2:4], number[4:6]) and has_luhn(number)


def _is_chinese(number: str) -> bool:
    return _is_date(number[6:10], number[10:12], number[12:14]) and has_chinese_checksum(number)


def _is_korean(number: str) -> bool:
    return _is_date(number[:2], number[2:4], number[4:6])


def _is_finnish(number: str) -> bool:
    """Finnish personal identity code: remainder modulo 31."""
    return "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(number[:6] + number[6:9]) % 31] == number[9]


def _is_danish(number: str) -> bool:
    return _is_date(number[4:6], number[2:4], number[:2])


def _is_no_card(number: str) -> bool:
    return not is_card_pseudonym(number)


def _is_any(_number: str) -> bool:
    return True


def _has_digit(number: str) -> bool:
    return sum(character.isdigit() for character in number) >= 4


def _is_singaporean(number: str) -> bool:
    """Singaporean NRIC and FIN: weights 2, 7, 6, 5, 4, 3, 2."""
    total = weighted_sum(number[1:8], (2, 7, 6, 5, 4, 3, 2)) + (
        4 if number[0] in "TG" else 3 if number[0] == "M" else 0
    )
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "F": "XWUTRQPNMLK", "G": "XWUTRQPNMLK", "M": "XWUTRQPNJLK"}
    row = letters[number[0]]
    return (row[10 - total % 11] if number[0] == "M" else row[total % 11]) == number[8]


_SSN_WORDS = r"ssn|itin|social(?: security)?|tax(?:payer)? ?(?:id|number|no)"
_TAX_WORDS = r"steuer[\w-]*|tax[\w -]*|idnr|identifikationsnummer"
_ANY_WORDS = (
    r"national id|id ?(?:card|number|no)|identity|identification|personal ?(?:number|id)|pesel|bsn"
    r"|burgerservicenummer|cpr|sin|social insurance|sozialversicherung\w*|nhs|aadha+r"
    r"|cpf|dni|nif|nie|curp|rfc|nir|sécu\w*|my ?number"
    r"|tckn|t\.?c\.? kimlik|kimlik|tfn|medicare|mynumber|personnummer|fødselsnummer|codice fiscale|ahv|avs|ssn"
    r"|citizen"
)

DIGITS = (
    _form(r"\d{3}-\d\d-\d{4}|\d{3}([ .])\d\d\1\d{4}|\d{3}\u2013\d\d\u2013\d{4}", _is_ssn),
    _form(r"\d{9}", _is_ssn, _SSN_WORDS),
    _form(r"\d{2} \d{3} \d{3} \d{3}|\d{11}", has_iso_11_10_checksum, _TAX_WORDS),
    _form(r"[12] ?\d{2} ?\d{2} ?\d{2} ?\d{3} ?\d{3} ?\d{2}", _is_nir),
    _form(r"\d{3}\.\d{3}\.\d{3}-\d\d", has_cpf_checksum),
    _form(r"\d{11}", has_cpf_checksum, r"cpf"),
    _form(r"[2-9]\d{3}([ -])\d{4}\1\d{4}", has_verhoeff),
    _form(r"[2-9]\d{11}", has_verhoeff, r"aadha+r"),
    _form(r"\d{3} \d{3} \d{4}", _is_nhs),
    _form(r"\d{10}", _is_nhs, "nhs"),
    _form(r"\d{3}([ -])\d{3}\1\d{3}|\d{9}", has_luhn, r"sin|social insurance"),
    _form(r"\d{4}[ .]?\d{2}[ .]?\d{3}|\d{9}", _is_bsn, r"bsn|burgerservice\w*|sofi\w*"),
    _form(r"\d\d\.\d\d\.\d\d-\d{3}\.\d\d", _is_belgian),
    _form(r"\d{11}", _is_pesel, r"pesel"),
    _form(r"(?:19|20)?\d{6}[-+]\d{4}", _is_swedish),
    _form(r"(?:19|20)?\d{10}", _is_swedish, r"personnummer|personal (?:identity )?number"),
    _form(r"\d{6}-\d{4}", _is_danish, r"cpr|personnummer"),
    _form(r"\d{13}", _is_south_african, r"id|identity|said"),
    _form(r"\d{6}-[1-8]\d{6}", _is_korean),
    _form(r"756([. ]?)\d{4}\1\d{4}\1\d\d", has_ean_checksum),
    _form(rf"\d(?:{_S}?\d){{7,18}}", _is_no_card, _ANY_WORDS),
)
"""Forms of digits and separators, searched in the parts of a text with many digits."""

LETTERS = (
    _form(
        r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]( ?)\d\d\1\d\d\1\d\d\1[A-D]",
        lambda number: number[:2] not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ"),
    ),
    _form(r"\d{8}-?[A-HJ-NP-TV-Z]|[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]", _is_dni),
    _form(
        r"[A-Z]{6}\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}[A-Z]|[A-Z]{3} [A-Z]{3} \d\d[A-EHLMPRST]\d\d [A-Z]\d{3}[A-Z]",
        has_italian_checksum,
    ),
    _form(r"[A-Z]{3}[ABCFGHLJPT][A-Z]\d{4}[A-Z]", _is_any),
    _form(r"\d{17}[\dXx]", _is_chinese),
    _form(r"[A-Z]{4}\d{6}[HM][A-Z]{5}[0-9A-Z]\d", _is_any),
    _form(r"[STFGM]\d{7}[A-Z]", _is_singaporean),
    _form(r"\d{6}[-+A]\d{3}[0-9A-FHJ-NPR-Y]", _is_finnish),
)
"""Forms with letters."""

_DOCUMENT = re.compile(
    r"(?:passport|passeport|pasaporte|passaporto|reisepass|\bpass-?nr|driver'?s?'? licen[cs]e|driving licen[cs]e"
    r"|licen[cs]e(?: number| no)|führerschein|permis de conduire|personalausweis|ausweis(?:nummer|-?nr)|national id"
    r"|identity card|id card|carte d'identité|green card|visa number|护照)(?:[\w']{0,10})[\s\"':=#.,(-]{0,4}"
    r"(?:(?:is|number|no|nr|nummer|num|numéro|número|n°|id|card|lautet|ist|es|est)\b[\s\"':=#.,(]{0,4}){0,3}"
    r"(?P<number>[A-Z]{0,3}[ -]?(?=(?:[A-Z-]{0,4}\d){3})[A-Z0-9]{3,13}"
    r"(?:[ -](?=[A-Z]?\d)[A-Z0-9]{2,6}){0,3})(?![\w@])",
    re.IGNORECASE,
)
_DOCUMENT_HINTS = (
    "passport", "passeport", "pasaporte", "passaporto", "reisepass", "passnr", "pass-nr", "driver", "driving",
    "licence", "license", "führerschein", "permis de", "ausweis", "national id", "identity card", "id card",
    "carte d'identit", "green card", "visa number", "护照",
)  # fmt: skip
_LETTER_START = re.compile(
    r"[A-Z0-9](?<![A-Za-z0-9].)(?:[A-Z0-9]{7}|[A-Z] \d\d \d\d|[A-Z]{2} [A-Z]{3} \d\d|-\d{7}|\d{5}[-+]\d{3}[0-9A-Z])"
)
"""Where a form with letters may start."""
_REACH = 48
_FEWEST = 8
"""Digits of the shortest number."""


def national_ids(text: str, runs: list[DigitRun]) -> Iterator[Finding]:
    """Yields numbers of persons; ``runs`` are the parts of the text with many digits."""
    for start, stop, digits in runs:
        for form in DIGITS if digits >= _FEWEST else ():
            yield from _matches(text, form, start, stop)
    for position in [match.start() for match in _LETTER_START.finditer(text)]:
        for form in LETTERS:
            if (match := form.pattern.match(text, position)) and form.is_valid(_plain(match[0])):
                yield Finding("id", match.start(), match.end())
    lower = text.lower()
    if any(hint in lower for hint in _DOCUMENT_HINTS):
        for match in _DOCUMENT.finditer(text):
            if _has_digit(match["number"]) and not is_id_pseudonym(_plain(match["number"])):
                yield Finding("id", *match.span("number"))


def _matches(text: str, form: _Form, start: int, stop: int) -> Iterator[Finding]:
    for match in form.pattern.finditer(text, start, stop):
        before = text[max(0, match.start() - _REACH) : match.start()]
        if before[-1:].isalnum() or (before[-1:] in ("-", ".") and before[-2:-1].isdigit()):
            continue
        if form.context is not None and not form.context.search(before):
            continue
        number = _plain(match[0])
        if form.is_valid(number) and (form.context is None or not is_id_pseudonym(number)):
            yield Finding("id", match.start(), match.end())


def is_number_of_person(text: str) -> bool:
    """Whether the whole text is a valid number in a form that needs no word of context."""
    forms = (form for form in (*DIGITS, *LETTERS) if form.context is None)
    return any(form.pattern.fullmatch(text) and form.is_valid(_plain(text)) for form in forms)


def _plain(text: str) -> str:
    return "".join(character for character in text.upper() if character.isalnum())
