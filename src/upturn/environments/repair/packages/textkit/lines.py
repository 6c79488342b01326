"""Lines of a text."""


def wrap(text, width):
    """The text in lines of at most ``width`` characters, broken between words.

    A word longer than the width has a line of its own.
    """
    lines = []
    line = ""
    for word in text.split():
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line = line + " " + word
        else:
            lines.append(line)
            line = word
    if line:
        lines.append(line)
    return lines


def indent(text, spaces):
    """The text with so many spaces in front of each line that is not empty."""
    result = []
    for line in text.split("\n"):
        if line.strip():
            result.append(" " * spaces + line)
        else:
            result.append("")
    return "\n".join(result)


def justify(text, width):
    """The lines of ``wrap``, filled with spaces on the left up to the width."""
    return [line.rjust(width) for line in wrap(text, width)]
