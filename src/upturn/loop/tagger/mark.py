"""Marks around the parts of a document that are to be found: characters for private use."""

from collections.abc import Mapping

from upturn.pool.privacy.tagger import LABELS

END = "\ue000"
STARTS: Mapping[int, str] = {label: chr(0xE000 + label) for label in range(1, len(LABELS))}
"""The mark in front of a part, by label."""
_ALL = {ord(mark): None for mark in (END, *STARTS.values())}


def marked(label: str, text: str) -> str:
    """Returns the text between the marks of a label such as ``person``."""
    return f"{STARTS[LABELS.index(label)]}{text}{END}"


def plain_of(text: str) -> str:
    """Returns the text without marks."""
    return text.translate(_ALL)
