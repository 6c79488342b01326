"""How alike a predicted text is to the one that came: what a world model is rewarded for. Pure functions of texts.

Not covered: meaning. Two wordings of one fact differ by their words, and outputs that differ in one word of many
are nearly alike; where either matters, hand in a similarity of your own.
"""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

_WORD = re.compile(r"(?<!\w)-?\d+(?:\.\d+)*(?!\w)|\w+")


class Similarity(Protocol):
    """How alike two texts are."""

    def __call__(self, predicted: str, actual: str, /) -> float:
        """In [0, 1]; 1 for equal texts. A pure function of both."""


def words(text: str) -> tuple[str, ...]:
    """The words and numbers in a text, without regard to case; everything between them is left out.

    A number keeps its sign and its decimals, a name its digits and underscores: ``-5`` is not 5, ``m27`` not m28.
    """
    return tuple(_WORD.findall(text.casefold()))


def common_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence, exactly.

    Hyyrö, "Bit-parallel LCS-length computation revisited" (2004): the table's columns as bits of one number, where
    a 0 at place i says that the length grows at element i of ``first``.
    """
    places: dict[Hashable, int] = {}
    for place, element in enumerate(first):
        places[element] = places.get(element, 0) | 1 << place
    every = (1 << len(first)) - 1
    column = every
    for element in second:
        matching = column & places.get(element, 0)
        column = ((column + matching) | (column - matching)) & every
    return len(first) - column.bit_count()


def rouge_l(predicted: Sequence[Hashable], actual: Sequence[Hashable]) -> float:
    """ROUGE-L in [0, 1]: 2·LCS / (both lengths), the harmonic mean of precision and recall; 0 where one is empty.

    Lin, "ROUGE: a package for automatic evaluation of summaries" (2004), section 3.1, with β = 1.
    """
    if not predicted or not actual:
        return 0.0
    return 2 * common_length(predicted, actual) / (len(predicted) + len(actual))


@dataclass(frozen=True, slots=True)
class WordSimilarity:
    """ROUGE-L of the words; all or nothing where the actual text is too short for shares to say anything."""

    exact_words: int = 4
    """Actual texts of fewer words have to be met word by word: of ``deleted m27`` half is boilerplate."""

    def __call__(self, predicted: str, actual: str, /) -> float:
        """In [0, 1]. Texts without a word (``[]``) are alike when they are equal but for space around them."""
        found, wanted = words(predicted), words(actual)
        if not wanted:
            return float(predicted.strip() == actual.strip())
        if len(wanted) < self.exact_words:
            return float(found == wanted)
        return rouge_l(found, wanted)
