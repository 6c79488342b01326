"""What the scripted vendor refuses."""

from collections.abc import Iterator


class RefusedError(Exception):
    """A request that a vendor answers with 400."""


def need(condition: object, message: str) -> None:
    """Raises RefusedError unless the condition holds."""
    if not condition:
        raise RefusedError(message)


def pieces(text: str, size: int = 3) -> Iterator[str]:
    """The text in pieces."""
    for start in range(0, len(text), size):
        yield text[start : start + size]
