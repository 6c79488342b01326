"""Online clustering of sketches: a bounded number of clusters whose names stay.

A text goes to the most similar cluster if it is similar enough, and otherwise begins a new one (leader clustering,
Hartigan 1975). A cluster gets a number, and so a name, when it has ``ESTABLISHED`` texts; it is then never removed.
There are at least as many places for unnamed clusters as for named ones; a new one displaces the smallest. Words
count by their inverse document frequency so far.

Similarity is the cosine between a text and the sum of a cluster's texts, with the frequencies as of the last
multiple of ``_REFRESH`` texts, so that most texts change one cluster only. The same sketches in the same order give
the same bits.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from upturn.arbiter.texts.sketch import BUCKETS

ESTABLISHED = 10
"""Texts of a cluster before it is a family: with fewer, outcomes could not teach anything."""
SIMILARITY = 0.2
"""Smallest cosine between a text and its cluster; see docs/decisions.md for the measurement."""
_REFRESH = 64
"""Texts between two updates of the inverse document frequencies; up to that many texts, they are always updated."""


class TextClusters:
    """Clusters of sketches. Not thread-safe."""

    def __init__(self, most: int) -> None:
        """``most``: the largest number of named clusters, at least 1."""
        self.most = most
        self._texts = 0
        self._frequency = np.zeros(BUCKETS, np.int64)
        self._weights = np.zeros(BUCKETS)
        """Inverse document frequencies, as of the last update."""
        self._sums = np.zeros((2 * most, BUCKETS), np.int64)
        self._directions = np.zeros((2 * most, BUCKETS))
        """The weighted sums, each with length 1."""
        self._sizes = np.zeros(2 * most, np.int64)
        """0 = a free place."""
        self._numbers = np.zeros(2 * most, np.int64)
        """0 = not named yet."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the clusters, the oldest first."""
        return [_name(number) for number in range(1, int(self._numbers.max()) + 1)]

    def find(self, buckets: Sequence[int]) -> str | None:
        """Returns the name of the text's cluster; None = it belongs to none, or to an unnamed one."""
        place = self._nearest(buckets)
        return None if place is None or not self._numbers[place] else _name(int(self._numbers[place]))

    def learn(self, buckets: Sequence[int]) -> None:
        """Adds a text to its cluster, or begins one with it; a text without words changes nothing."""
        if not buckets:
            return
        members = list(buckets)
        self._texts += 1
        self._frequency[members] += 1
        if self._texts < _REFRESH or self._texts % _REFRESH == 0:
            self._weights = np.log((1.0 + self._texts) / (1.0 + self._frequency))
            self._turn(slice(None))
        place = self._nearest(buckets)
        if place is None:
            place = self._free_place()
            self._sums[place] = 0
            self._sizes[place] = 0
        self._sums[place, members] += 1
        self._sizes[place] += 1
        self._turn(slice(place, place + 1))
        if self._sizes[place] >= ESTABLISHED and not self._numbers[place] and self._numbers.max() < self.most:
            self._numbers[place] = self._numbers.max() + 1

    def state(self) -> dict[str, Any]:
        """Returns everything that was learned, as JSON data."""
        return {
            "texts": self._texts,
            "frequency": self._frequency.tolist(),
            "weights": self._weights.tolist(),
            "clusters": [
                [int(place), int(self._sizes[place]), int(self._numbers[place]), self._sums[place].tolist()]
                for place in np.flatnonzero(self._sizes)
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from a state of untrained clusters with the same ``most``."""
        self._texts = state["texts"]
        self._frequency[:] = state["frequency"]
        self._weights[:] = state["weights"]
        for place, size, number, sums in state["clusters"]:
            self._sizes[place], self._numbers[place], self._sums[place] = size, number, sums
        self._turn(slice(None))

    def _turn(self, places: slice) -> None:
        """Computes the directions of clusters from their sums."""
        weighted = self._sums[places] * self._weights
        lengths = np.sqrt((weighted * weighted).sum(axis=1, keepdims=True))
        self._directions[places] = np.divide(weighted, lengths, out=np.zeros_like(weighted), where=lengths > 0)

    def _nearest(self, buckets: Sequence[int]) -> int | None:
        """Returns the place of the most similar cluster; None = none is similar enough."""
        if not buckets:
            return None
        members = list(buckets)
        text = self._weights[members]
        length = np.sqrt((text * text).sum())
        if not length > 0:
            return None
        similarity = (self._directions[:, members] * text).sum(axis=1)
        place = int(similarity.argmax())
        return place if similarity[place] >= SIMILARITY * length else None

    def _free_place(self) -> int:
        """Returns the place for a new cluster: a free one, else that of the smallest unnamed one."""
        return int(np.where(self._numbers > 0, np.iinfo(np.int64).max, self._sizes).argmin())


def _name(number: int) -> str:
    return f"cluster-{number}"
