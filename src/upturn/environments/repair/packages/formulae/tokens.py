"""Parts of a formula."""

SIGNS = "+-*()"


def tokens(text):
    """Numbers and signs in their order; spaces are left out. None where there is another character."""
    parts = []
    number = ""
    for letter in text + " ":
        if letter.isdigit():
            number += letter
            continue
        if number:
            parts.append(int(number))
            number = ""
        if letter in SIGNS:
            parts.append(letter)
        elif letter != " ":
            return None
    return parts


def is_balanced(text):
    """Whether every bracket is closed, and none before it was opened."""
    depth = 0
    for letter in text:
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth < 0:
                return False
    return depth == 0


def depth(text):
    """The largest number of brackets that are open at the same time."""
    deepest = 0
    now = 0
    for letter in text:
        now += (letter == "(") - (letter == ")")
        deepest = max(deepest, now)
    return deepest
