"""Checksums of card, account and personal numbers; each takes the digits (or letters) without separators."""

from itertools import cycle

_VERHOEFF_PRODUCT = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_VERHOEFF_PERMUTATION = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip
_ODD_VALUES = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
"""Values of 0-9 and of A-Z at the odd positions of an Italian codice fiscale (D.M. 23/12/1976)."""


def has_luhn(digits: str) -> bool:
    """Luhn (ISO/IEC 7812-1): payment cards, Canadian SIN, Swedish and South African personal numbers."""
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + index % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def has_iban_checksum(iban: str) -> bool:
    """ISO 13616: remainder 1 modulo 97, with letters as 10 to 35."""
    rotated = iban[4:] + iban[:4]
    return int("".join(str(int(letter, 36)) for letter in rotated)) % 97 == 1


def weighted_sum(digits: str, weights: tuple[int, ...]) -> int:
    """Returns the sum of digit times weight; the weights repeat."""
    return sum(int(digit) * weight for digit, weight in zip(digits, cycle(weights), strict=False))


def has_verhoeff(digits: str) -> bool:
    """Verhoeff's dihedral check: Indian Aadhaar numbers."""
    check = 0
    for index, digit in enumerate(reversed(digits)):
        check = int(_VERHOEFF_PRODUCT[check][int(_VERHOEFF_PERMUTATION[index % 8][int(digit)])])
    return check == 0


def has_cpf_checksum(digits: str) -> bool:
    """Brazilian CPF: two check digits modulo 11; equal digits throughout are not given out."""
    if len(set(digits)) == 1:
        return False
    for length in (9, 10):
        total = sum(int(digit) * (length + 1 - index) for index, digit in enumerate(digits[:length]))
        if total * 10 % 11 % 10 != int(digits[length]):
            return False
    return True


def has_iso_11_10_checksum(digits: str) -> bool:
    """ISO/IEC 7064 MOD 11,10: German tax numbers."""
    product = 10
    for digit in digits[:-1]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[-1])


def has_chinese_checksum(number: str) -> bool:
    """GB 11643 (ISO 7064 MOD 11-2): Chinese resident identity numbers of 18 characters."""
    total = sum(int(digit) * pow(2, 17 - index, 11) for index, digit in enumerate(number[:17]))
    return "10X98765432"[total % 11] == number[17].upper()


def has_italian_checksum(code: str) -> bool:
    """Italian codice fiscale: the last letter, modulo 26."""
    values = [int(character, 36) for character in code[:15]]
    positions = [value if value < 10 else value - 10 for value in values]
    total = sum(_ODD_VALUES[value] if index % 2 == 0 else value for index, value in enumerate(positions))
    return chr(65 + total % 26) == code[15]


def has_ean_checksum(digits: str) -> bool:
    """EAN-13: Swiss AHV numbers."""
    return weighted_sum(digits, (1, 3)) % 10 == 0
