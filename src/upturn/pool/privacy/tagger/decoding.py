"""Labels of tokens from their scores, and the parts of the text that they make."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from upturn.pool.privacy.tagger.network import Floats

OTHER = 0
LABELS = ("", "person", "address", "organisation")
"""The first: none of them."""


class Span(NamedTuple):
    """Tokens in a row with one label."""

    label: int
    first: int
    last: int
    """The last token, included."""


class Costs(NamedTuple):
    """What decoding subtracts from scores, in their unit."""

    change: int
    """Of a label that differs from that of the token before."""
    certain: int
    """Tokens whose score of no label is higher by this than every other one are not decoded."""
    label: tuple[int, ...]
    """Of each label, for every token."""
    unknown: int = 0
    """Added to the score of a person where a word with a capital is in no list: in training, such words are more
    often made-up ones than in texts."""


def spans_of(scores: Floats, costs: Costs) -> Iterator[Span]:
    """Yields the spans of the best sequence of labels (Viterbi, 1967), ascending; ``scores``: (LABELS, T)."""
    scores = scores - np.array(costs.label, np.float32)[:, None]
    best = np.maximum(np.maximum(scores[1], scores[2]), scores[3])
    uncertain = np.flatnonzero(best > scores[OTHER] - costs.certain)
    if not len(uncertain):
        return
    breaks = np.flatnonzero(np.diff(uncertain) > 1)
    firsts = uncertain[np.concatenate(([0], breaks + 1))].tolist()
    lasts = uncertain[np.concatenate((breaks, [len(uncertain) - 1]))].tolist()
    for first, last in zip(firsts, lasts, strict=True):
        part = scores[:, first : last + 1]
        if not (best[first : last + 1] > part[OTHER]).any():
            continue  # no label is anywhere better than none
        labels = _best(part.T.tolist(), costs.change)
        start = 0
        for place in range(1, len(labels) + 1):
            if place == len(labels) or labels[place] != labels[start]:
                if labels[start] != OTHER:
                    yield Span(labels[start], first + start, first + place - 1)
                start = place


def _best(scores: list[list[float]], change: int) -> list[int]:
    """Returns the labels with the highest sum; around them stands no label."""
    totals = [score - (change if label != OTHER else 0) for label, score in enumerate(scores[0])]
    origins: list[list[int]] = []
    for row in scores[1:]:
        best = max(range(len(totals)), key=totals.__getitem__)
        rest = totals[best] - change
        origin = [label if total >= rest else best for label, total in enumerate(totals)]
        totals = [max(total, rest) + score for total, score in zip(totals, row, strict=True)]
        origins.append(origin)
    totals = [total - (change if label != OTHER else 0) for label, total in enumerate(totals)]
    labels = [max(range(len(totals)), key=totals.__getitem__)]
    for origin in reversed(origins):
        labels.append(origin[labels[-1]])
    return labels[::-1]
