"""Finding words of context in a text, whatever their case."""

from collections.abc import Iterator, Sequence


def lowered(text: str) -> str:
    """Returns the text in lower case, with every character at its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # a few letters, such as İ, become two
    return "".join(letter if len(letter.lower()) > 1 else letter.lower() for letter in text)


def ends_of(lower: str, words: Sequence[str]) -> Iterator[int]:
    """Yields where the words end in a text in lower case."""
    for word in words:
        start = lower.find(word)
        while start >= 0:
            yield start + len(word)
            start = lower.find(word, start + 1)
