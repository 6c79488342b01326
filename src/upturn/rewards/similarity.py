"""Text similarity between a predicted and an actual observation: the reward of a world model. Pure functions.

Not covered: meaning. Paraphrases score low, and long outputs that differ in one word score high; where either
matters, pass a ``Similarity`` of your own.
"""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

_WORD = re.compile(r"(?<!\w)-?\d+(?:\.\d+)*(?!\w)|\w+")


class Similarity(Protocol):
    """Similarity of two texts."""

    def __call__(self, predicted: str, actual: str, /) -> float:
        """In [0, 1]; 1 for equal texts. A pure function of both."""


def words(text: str) -> tuple[str, ...]:
    """The words and numbers in a text, case-folded; everything between them is dropped.

    A number keeps its sign and its decimals, a name its digits and underscores: ``-5`` is not 5, ``m27`` not m28.
    """
    return tuple(_WORD.findall(text.casefold()))


def common_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence, exactly.

    Hyyrö, "Bit-parallel LCS-length computation revisited" (2004): a column of the table is one integer, where a 0
    in bit i means that the length grows at element i of ``first``.
    """
    bits_of: dict[Hashable, int] = {}
    for index, element in enumerate(first):
        bits_of[element] = bits_of.get(element, 0) | 1 << index
    all_bits = (1 << len(first)) - 1
    column = all_bits
    for element in second:
        matching = column & bits_of.get(element, 0)
        column = ((column + matching) | (column - matching)) & all_bits
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
    """ROUGE-L over words; exact match for actual texts too short for a meaningful share."""

    exact_words: int = 4
    """Actual texts with fewer words need an exact match: half of ``deleted m27`` is boilerplate."""

    def __call__(self, predicted: str, actual: str, /) -> float:
        """In [0, 1]. Texts without a word (``[]``) are compared for equality, surrounding space aside."""
        predicted_words, actual_words = words(predicted), words(actual)
        if not actual_words:
            return float(predicted.strip() == actual.strip())
        if len(actual_words) < self.exact_words:
            return float(predicted_words == actual_words)
        return rouge_l(predicted_words, actual_words)
