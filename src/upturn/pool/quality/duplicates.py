"""Trajectories of different tasks with equal or almost equal words.

Attempts at the same task may be equal, as in groups. Almost equal: MinHash signatures over runs of five words
(Broder 1997), compared where they share a band (locality-sensitive hashing: Leskovec, Rajaraman and Ullman, Mining
of Massive Datasets, section 3.4). 16 bands of 4 hashes find pairs of similarity .8 with probability
1 − (1 − .8⁴)¹⁶ = .9998, of .5 with .64; a signature of 64 hashes then estimates the similarity with a standard
error of at most .0625.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from upturn.pool.quality.words import digest_of, shingles

SIMILARITY = 0.8
"""Estimated Jaccard similarity from which two trajectories are almost equal."""
_SHINGLE_WORDS = 5
_BANDS, _BAND_HASHES = 16, 4
_HASHES = _BANDS * _BAND_HASHES
_PRIME = (1 << 61) - 1
_MIN_WORDS = 20
"""Shorter ones are not compared: a few words are alike by chance."""


class Twin(NamedTuple):
    """Two trajectories by the order in which they were added."""

    first: int
    second: int
    similarity: float
    """1.0 = the same words."""


class DuplicateFinder:
    """Collects some 200 bytes of each trajectory, then compares."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._factors = rng.integers(1, _PRIME, _HASHES, dtype=np.uint64)
        self._terms = rng.integers(0, _PRIME, _HASHES, dtype=np.uint64)
        self._tasks: list[str] = []
        self._digests: list[bytes] = []
        self._compared = array("q")
        """Indices of those with a signature."""
        self._signatures = array("I")

    def add(self, task_id: str, words: Sequence[str]) -> None:
        """Adds the next trajectory."""
        self._digests.append(digest_of(words))
        self._tasks.append(task_id)
        if len(words) >= _MIN_WORDS:
            self._compared.append(len(self._tasks) - 1)
            self._signatures.frombytes(self._signature(words).tobytes())

    def equal(self) -> Iterator[Twin]:
        """Yields each trajectory whose words an earlier one of another task has, with the first such one."""
        first: dict[bytes, int] = {}
        for index, digest in enumerate(self._digests):
            earlier = first.setdefault(digest, index)
            if self._tasks[earlier] != self._tasks[index]:
                yield Twin(earlier, index, 1.0)

    def similar(self) -> Iterator[Twin]:
        """Yields each trajectory that is almost an earlier one of another task, with one such; equal ones are left
        out."""
        signatures = np.frombuffer(self._signatures, dtype=np.uint32).reshape(-1, _HASHES)
        best: dict[int, Twin] = {}
        for band in range(_BANDS):
            part = np.ascontiguousarray(signatures[:, band * _BAND_HASHES : (band + 1) * _BAND_HASHES])
            keys = part.view(np.dtype((np.void, part.dtype.itemsize * _BAND_HASHES))).ravel()
            order = np.argsort(keys, kind="stable")
            starts = np.flatnonzero(np.r_[True, keys[order][1:] != keys[order][:-1]])
            for members in np.split(order, starts[1:]):
                for twin in self._alike(signatures, members):
                    if twin.second not in best or best[twin.second].similarity < twin.similarity:
                        best[twin.second] = twin
        yield from (best[index] for index in sorted(best))

    def _alike(self, signatures: np.ndarray, members: np.ndarray) -> Iterator[Twin]:
        """Compares the members of a bucket with its first one."""
        if len(members) < 2:
            return
        first = int(members[0])
        shares = (signatures[members[1:]] == signatures[first]).mean(axis=1)
        for member, share in zip(members[1:], shares, strict=True):
            one, other = self._compared[first], self._compared[int(member)]
            is_other_task = self._tasks[one] != self._tasks[other]
            if share >= SIMILARITY and is_other_task and self._digests[one] != self._digests[other]:
                yield Twin(one, other, float(share))

    def _signature(self, words: Sequence[str]) -> np.ndarray:
        """The least value of each hash function over the runs of words; 64 numbers of 32 bits."""
        hashes = np.unique(np.fromiter(shingles(words, _SHINGLE_WORDS), dtype=np.uint64))
        values = hashes[:, None] * self._factors + self._terms  # modulo 2⁶⁴, of which the upper half is used
        least: np.ndarray = (values >> np.uint64(32)).min(axis=0)
        return least.astype(np.uint32)
