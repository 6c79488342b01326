"""Which earlier turns matter now: by the words they share with the instruction and the latest observation."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

_WORD = re.compile(r"\w+")


class Relevance(Protocol):
    """Says how much each of some texts has to do with a query. Pure: the same arguments give the same scores."""

    def __call__(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score for each text; only their order counts."""


def lexical_relevance(query: str, texts: Sequence[str]) -> tuple[float, ...]:
    """Share of the query's words, weighted by how rare they are among the texts, that a text holds: 0 to 1.

    A word's weight is ln(1 + n / d) of n texts, d of which hold it (idf, Spärck Jones 1972, smoothed so that a word
    that all texts hold still counts a little). Words that no text holds tell none from another and are left out.
    Words are runs of letters, digits and underscores, in any case, each counted once.
    """
    held = [_words(text) for text in texts]
    frequency = Counter(word for words in held for word in words)
    weights = {word: math.log(1 + len(texts) / frequency[word]) for word in _words(query) if frequency[word]}
    total = math.fsum(weights.values())
    if not total:
        return (0.0,) * len(texts)
    return tuple(math.fsum(weights[word] for word in words & weights.keys()) / total for words in held)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
