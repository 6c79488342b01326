"""To and from Roman numerals."""

VALUES = (
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
)
LETTERS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def to_roman(number):
    """The numeral of the number."""
    numeral = ""
    for value, letters in VALUES:
        while number >= value:
            numeral += letters
            number -= value
    return numeral


def from_roman(numeral):
    """The number: a letter before a larger one is subtracted."""
    total = 0
    for place, letter in enumerate(numeral):
        value = LETTERS[letter]
        following = numeral[place + 1 : place + 2]
        if following and LETTERS[following] > value:
            total -= value
        else:
            total += value
    return total
