"""Numbers with check digits, and shifted letters."""


def luhn_sum(digits):
    """The Luhn sum: from the right every second digit is doubled, and 9 subtracted where that is above 9."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        if place % 2 == 1:
            value *= 2
            if value > 9:
                value -= 9
        total += value
    return total


def is_luhn(digits):
    """Whether the digits have at least two places and a right check digit."""
    return len(digits) >= 2 and luhn_sum(digits) % 10 == 0


def with_check_digit(digits):
    """The digits and their Luhn check digit."""
    check = -luhn_sum(digits + "0") % 10
    return digits + str(check)


def shift(text, by):
    """Each small letter moved on in the alphabet, after z comes a; other characters stay."""
    moved = ""
    for letter in text:
        if "a" <= letter <= "z":
            moved += chr((ord(letter) - ord("a") + by) % 26 + ord("a"))
        else:
            moved += letter
    return moved


def grouped(digits, size):
    """The digits in groups of ``size`` with spaces between them; the first group is the short one."""
    groups = []
    stop = len(digits)
    while stop > 0:
        groups.append(digits[max(0, stop - size) : stop])
        stop -= size
    return " ".join(reversed(groups))
