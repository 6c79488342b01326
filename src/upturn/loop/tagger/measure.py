"""Shares of parts that a detector finds whole, and of other words that it leaves alone."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from upturn.loop.tagger.document import Marked
from upturn.pool.privacy import Detector
from upturn.pool.privacy.tagger import LABELS

_WORD = re.compile(r"\S+")


class Shares(NamedTuple):
    """Shares of 1."""

    found: dict[str, float]
    """By label: parts whose letters and digits are all in a finding, of any kind."""
    untouched: float
    """Other words without a finding."""


def measure_shares(detect: Detector, documents: Iterable[Marked]) -> Shares:
    """Returns the shares over the documents."""
    whole: Counter[str] = Counter()
    found: Counter[str] = Counter()
    untouched = words = 0
    for text, parts in documents:
        covered, planted = bytearray(len(text)), bytearray(len(text))
        for finding in detect(text):
            covered[finding.start : finding.stop] = b"\1" * (finding.stop - finding.start)
        for label, start, stop in parts:
            planted[start:stop] = b"\1" * (stop - start)
            whole[LABELS[label]] += 1
            found[LABELS[label]] += all(covered[place] for place in range(start, stop) if text[place].isalnum())
        for word in _WORD.finditer(text):
            if not any(planted[word.start() : word.end()]):
                words += 1
                untouched += not any(covered[word.start() : word.end()])
    return Shares(
        {label: found[label] / whole[label] for label in LABELS[1:] if whole[label]}, untouched / max(words, 1)
    )
