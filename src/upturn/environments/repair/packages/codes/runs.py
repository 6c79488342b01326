"""Run-length encoding."""


def encode(text):
    """Each run as its letter and its length; a length of 1 is left out: ``aab`` becomes ``a2b``."""
    parts = []
    start = 0
    for place in range(1, len(text) + 1):
        if place == len(text) or text[place] != text[start]:
            count = place - start
            parts.append(text[start] + (str(count) if count > 1 else ""))
            start = place
    return "".join(parts)


def decode(code):
    """The text of an encoded one."""
    text = ""
    letter = ""
    digits = ""
    for character in code:
        if character.isdigit():
            digits += character
            continue
        text += letter * int(digits or 1)
        letter = character
        digits = ""
    return text + letter * int(digits or 1)


def saved(text):
    """How many characters the code is shorter than the text; 0 where it is not shorter."""
    return max(0, len(text) - len(encode(text)))
