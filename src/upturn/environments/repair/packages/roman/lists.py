"""Lists of numerals."""

from roman.numerals import LETTERS, from_roman, to_roman


def is_numeral(text):
    """Whether the text is a numeral as ``to_roman`` writes it."""
    if not text or any(letter not in LETTERS for letter in text):
        return False
    number = from_roman(text)
    return 0 < number < 4000 and to_roman(number) == text


def in_order(numerals):
    """The numerals in ascending order; what is no numeral is left out."""
    return sorted((text for text in numerals if is_numeral(text)), key=from_roman)


def chapter(number, title):
    """``IV. The title``; the title's first letter is a capital, the others stay as they are."""
    return f"{to_roman(number)}. {title[:1].upper()}{title[1:]}"


def sum_of(numerals):
    """The numeral of the sum; an empty text where the sum is 0 or above 3999."""
    total = sum(from_roman(text) for text in numerals if is_numeral(text))
    if total == 0 or total > 3999:
        return ""
    return to_roman(total)
