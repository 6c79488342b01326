"""Scores how relevant earlier turns are now, by words shared with the instruction and the latest observation."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

_WORD = re.compile(r"\w+")


class Relevance(Protocol):
    """Scores the relevance of texts to a query. Pure: the same arguments give the same scores."""

    def __call__(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score for each text; only their order matters."""


def lexical_relevance(query: str, texts: Sequence[str]) -> tuple[float, ...]:
    """Weighted share of the query's words that a text contains: 0 to 1.

    A word's weight is ln(1 + n / d) for n texts, d of which contain it (idf, Spärck Jones 1972, smoothed so that a
    word in all texts still counts a little). Words in no text are ignored. Words are runs of letters, digits and
    underscores, case-folded, each counted once.
    """
    words_of = [_words(text) for text in texts]
    frequency = Counter(word for words in words_of for word in words)
    weights = {word: math.log(1 + len(texts) / frequency[word]) for word in _words(query) if frequency[word]}
    total = math.fsum(weights.values())
    if not total:
        return (0.0,) * len(texts)
    return tuple(math.fsum(weights[word] for word in words & weights.keys()) / total for words in words_of)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
