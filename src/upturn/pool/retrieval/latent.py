"""Embeddings without a model: hashed words, weighted by inverse document frequency, in their principal directions.

Latent semantic analysis (Deerwester et al. 1990) on hashed features (Weinberger et al. 2009): words and pairs of
neighbouring words fall into buckets; a text is the vector of 1 + ln(count), times ln((1 + n) / (1 + d)) + 1 for n
texts of which d have the bucket; the projection is the right singular vectors of the fitted texts' matrix. Since
its rows are in the span of these vectors, up to ``DIMENSIONS`` fitted texts are compared by their exact TF-IDF
cosines.

The same fitted texts give the same vectors, with one version of the linear algebra library.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from upturn.pool.retrieval.embedder import FloatArray

BUCKETS = 8192
DIMENSIONS = 128
FITTED = 1024
"""Largest number of texts that it is fitted to: the fit takes 0.5 s then."""
_FIRST, _GROWTH = 64, 4
_MOST_CHARACTERS = 4_000
_NEGLIGIBLE = 1e-5
"""Share of the largest singular value below which a direction is rounding."""
_TEXTS_AT_ONCE = 500
_WORD = re.compile(r"\w+")


class LatentEmbedder:
    """The embeddings of texts, fitted to some of them; see ``Embedder``."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Fits it to the first 64, 256, 1,024 … of the distinct texts, or to all if they are fewer; to at most
        ``FITTED`` of these, evenly spread. So it changes rarely while a pool grows.
        """
        fitted = _chosen(texts)
        hasher = hashlib.sha256(f"latent {BUCKETS} {DIMENSIONS} {_MOST_CHARACTERS}".encode())
        for text in fitted:
            hasher.update(hashlib.sha256(text.encode(errors="surrogatepass")).digest())
        self.name = f"latent-{hasher.hexdigest()[:16]}"
        rows = [_counts(text) for text in fitted]
        counted = Counter(bucket for row in rows for bucket in row)
        frequency = np.zeros(BUCKETS, np.float32)
        frequency[list(counted)] = list(counted.values())
        self._weights: FloatArray = np.log((1 + len(rows)) / (1 + frequency)).astype(np.float32) + 1
        matrix = np.zeros((len(rows), BUCKETS), np.float32)
        for index, row in enumerate(rows):
            matrix[index, list(row)] = self._values(row)
        unit = _unit(matrix)
        self._projection = _principal_directions(unit)
        kept = np.sqrt(((unit @ self._projection) ** 2).sum(axis=1))
        self._kept = max(float(np.median(kept)) if len(kept) else 1.0, _NEGLIGIBLE)
        """Length that the projection leaves of a fitted text of length 1; 1 = no direction is left out."""

    @property
    def dimensions(self) -> int:
        """Length of the vectors, at most ``DIMENSIONS``."""
        return int(self._projection.shape[1])

    def documents(self, texts: Sequence[str]) -> FloatArray:
        """Returns an array (N, D) with a row of length 1 for each text; 0 for a text without known words."""
        parts = [
            np.stack([self._projected(text) for text in texts[start : start + _TEXTS_AT_ONCE]])
            for start in range(0, len(texts), _TEXTS_AT_ONCE)
        ]
        return _unit(np.concatenate(parts)) if parts else np.zeros((0, self.dimensions), np.float32)

    def query(self, text: str) -> FloatArray:
        """Returns the text's vector; words that no fitted text has make it shorter, and so less similar to all.

        What the projection leaves out of a usual text does not: such a text has a similarity of about 1 to itself.
        """
        values = self._values(_counts(text))
        length = float(np.sqrt((values * values).sum()))
        projected = self._projected(text)
        return projected / (length * self._kept) if length > 0 else projected

    def _projected(self, text: str) -> FloatArray:
        row = _counts(text)
        projected: FloatArray = self._values(row) @ self._projection[list(row)]
        return projected

    def _values(self, row: dict[int, int]) -> FloatArray:
        counts = np.fromiter(row.values(), np.float32, len(row))
        values: FloatArray = (1 + np.log(counts)) * self._weights[list(row)]
        return values


def fitted_count(texts: int) -> int:
    """Returns the number of texts that a fit chooses from, of so many."""
    if texts < _FIRST:
        return texts
    count = _FIRST
    while count * _GROWTH <= texts:
        count *= _GROWTH
    return count


def _chosen(texts: Sequence[str]) -> list[str]:
    distinct = list(dict.fromkeys(texts))
    count = fitted_count(len(distinct))
    step = max(1, count // FITTED)
    return distinct[:count:step]


def _principal_directions(matrix: FloatArray) -> FloatArray:
    """Returns the right singular vectors of a matrix (N, B) as columns (B, D), with a fixed sign."""
    if not len(matrix):
        return np.zeros((matrix.shape[1], 1), np.float32)
    values, vectors = np.linalg.eigh((matrix @ matrix.T).astype(np.float64))
    order = np.argsort(-values, kind="stable")[:DIMENSIONS]
    order = order[values[order] > _NEGLIGIBLE**2 * max(values[-1], 0.0)]
    if not len(order):
        return np.zeros((matrix.shape[1], 1), np.float32)
    directions = matrix.T.astype(np.float64) @ (vectors[:, order] / np.sqrt(values[order]))
    largest = np.abs(directions).argmax(axis=0)
    directions *= np.sign(directions[largest, np.arange(len(order))])
    fixed: FloatArray = directions.astype(np.float32)
    return fixed


def _unit(rows: FloatArray) -> FloatArray:
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    unit: FloatArray = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 1e-12)
    return unit


def _counts(text: str) -> dict[int, int]:
    """Returns how often the text's words and pairs of words fall into each bucket."""
    words = [word.casefold() for word in _WORD.findall(text[:_MOST_CHARACTERS])]
    return Counter(map(_bucket, [*words, *map(" ".join, pairwise(words))]))


@lru_cache(maxsize=262_144)
def _bucket(word: str) -> int:
    digest = hashlib.blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % BUCKETS
