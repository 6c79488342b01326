"""Values of formulae."""

from formulae.tokens import is_balanced, tokens

STRENGTH = {"+": 1, "-": 1, "*": 2}


def to_postfix(text):
    """Numbers and signs in postfix order: ``1 + 2 * 3`` becomes ``[1, 2, 3, "*", "+"]``."""
    output = []
    waiting = []
    for token in tokens(text):
        if isinstance(token, int):
            output.append(token)
        elif token == "(":
            waiting.append(token)
        elif token == ")":
            while waiting[-1] != "(":
                output.append(waiting.pop())
            waiting.pop()
        else:
            while waiting and waiting[-1] != "(" and STRENGTH[waiting[-1]] >= STRENGTH[token]:
                output.append(waiting.pop())
            waiting.append(token)
    while waiting:
        output.append(waiting.pop())
    return output


def calculate(first, sign, second):
    """The result of one operation."""
    if sign == "+":
        return first + second
    if sign == "-":
        return first - second
    return first * second


def value(text):
    """The value of the formula; None where its brackets are not balanced."""
    if not is_balanced(text):
        return None
    stack = []
    for token in to_postfix(text):
        if isinstance(token, int):
            stack.append(token)
        else:
            second = stack.pop()
            first = stack.pop()
            stack.append(calculate(first, token, second))
    return stack.pop()
