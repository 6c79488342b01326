"""Marks, by which detection recognises pseudonyms of numbers: digits that follow from the other ones.

A number that a person has carries the mark and the start of a pseudonym by chance once in ten thousand, or less.
"""

import hashlib

from upturn.pool.privacy.checksum import has_iban_checksum, has_luhn

_CARD_START = "424242"
"""A range that payment services give out for tests."""


def mark_card(digits: str) -> str:
    """Returns the digits with a mark of three and the check digit."""
    marked = digits + _mark(digits, "000")
    return next(marked + check for check in "0123456789" if has_luhn(marked + check))


def is_card_pseudonym(digits: str) -> bool:
    """Whether ``mark_card`` made the number."""
    return digits.startswith(_CARD_START) and mark_card(digits[:-4]) == digits


def mark_iban(country: str, body: str, shape: str) -> str:
    """Returns the IBAN with a mark at its end in letters and digits where ``shape`` has them."""
    body += _mark(country + body, shape)
    return next(
        f"{country}{number:02d}{body}"
        for number in range(2, 99)
        if has_iban_checksum(f"{country}{number:02d}{body}")
    )


def is_iban_pseudonym(iban: str) -> bool:
    """Whether ``mark_iban`` made the number."""
    iban = iban.upper()
    return set(iban[4:8]) <= {"0", "X"} and _mark(iban[:2] + iban[4:-3], iban[-3:]) == iban[-3:]


def mark_id(start: str, shape: str, last: str) -> str:
    """Returns the number with a mark of two before its last character, in the classes of ``shape``."""
    return start + _mark(start, shape) + last


def is_id_pseudonym(number: str) -> bool:
    """Whether ``mark_id`` made the number, which is without separators and in upper case."""
    is_start = len(number) >= 6 and number[0] in "9X" and number[1] in "9X"
    return is_start and _mark(number[:-3], number[-3:-1]) == number[-3:-1]


def _mark(text: str, shape: str) -> str:
    """Returns characters that follow from the text: digits where the shape has digits, letters elsewhere."""
    number = int.from_bytes(hashlib.sha256(f"upturn {text}".encode()).digest())
    made = ""
    for sign in shape:
        base = 10 if sign.isdigit() else 26
        number, value = divmod(number, base)
        made += str(value) if base == 10 else chr(65 + value)
    return made
