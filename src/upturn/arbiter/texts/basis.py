"""Features of a text from its sketch: a projection that begins as feature hashing and is fitted to what was seen.

The projection is a matrix of 512 buckets by 32 features. At first it is a random one with one sign in each row
(feature hashing, Weinberger et al. 2009). After 200 texts, and each time their number has grown fourfold, it is
the 32 principal directions of the sketches, weighted by inverse document frequency (latent semantic analysis,
Deerwester et al. 1990, on covariances). They are then turned towards the earlier features (orthogonal Procrustes
problem, Schönemann 1966), so that what a policy has learned about these stays useful.

The same sketches in the same order give the same bits, with one version of the linear algebra library.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import sqrt
from typing import Any
from zlib import compress, decompress

import numpy as np
from numpy.typing import NDArray

from upturn.arbiter.texts.sketch import BUCKETS

FEATURES = 32
FIRST_FIT = 200
"""Texts before the first fit: with fewer, directions are chance."""
GROWTH = 4
_DIGITS = 6
"""Significant digits of a feature; the log stores the features of every decision."""
FloatArray = NDArray[np.float64]


class TextBasis:
    """The projection with the counts that it is fitted to. Not thread-safe."""

    def __init__(self) -> None:
        self._texts = 0
        self._next_fit = FIRST_FIT
        self._together = np.zeros((BUCKETS, BUCKETS), np.int32)
        """Number of texts with both buckets."""
        self._projection = _hashing()
        self.fits = 0
        """Number of fits so far; 0 = the features are hashed."""

    def features(self, buckets: Sequence[int]) -> tuple[float, ...]:
        """Returns the 32 features of a text, of length 1; all are 0 without words."""
        projected = self._projection[list(buckets)].sum(axis=0)
        length = sqrt(float((projected * projected).sum()))
        return tuple(float(f"{value / length:.{_DIGITS}g}") if length else 0.0 for value in projected.tolist())

    def learn(self, buckets: Sequence[int]) -> None:
        """Counts a text, and fits the projection if it is time; a text without words changes nothing."""
        if not buckets:
            return
        members = np.array(buckets)
        self._together[members[:, None], members] += 1
        self._texts += 1
        if self._texts == self._next_fit:
            self._projection = _fitted(self._together, self._texts, self._projection)
            self._next_fit *= GROWTH
            self.fits += 1

    def state(self) -> dict[str, Any]:
        """Returns everything that was learned, as JSON data."""
        return {
            "texts": self._texts,
            "next_fit": self._next_fit,
            "fits": self.fits,
            "together": _packed(self._together),
            "projection": _packed(self._projection),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from a state."""
        self._texts, self._next_fit, self.fits = state["texts"], state["next_fit"], state["fits"]
        self._together = _unpacked(state["together"], np.dtype(np.int32)).reshape(BUCKETS, BUCKETS)
        self._projection = _unpacked(state["projection"], np.dtype(np.float64)).reshape(BUCKETS, FEATURES)


def _hashing() -> FloatArray:
    projection = np.zeros((BUCKETS, FEATURES))
    for bucket in range(BUCKETS):
        digest = int.from_bytes(blake2b(str(bucket).encode(), digest_size=8).digest())
        projection[bucket, (digest >> 1) % FEATURES] = 1.0 if digest & 1 else -1.0
    return projection


def _fitted(together: NDArray[np.int32], texts: int, earlier: FloatArray) -> FloatArray:
    """Returns the projection on the principal directions, turned towards the earlier one."""
    frequency = together.diagonal() / texts
    weights = np.log((1.0 + texts) / (1.0 + together.diagonal()))
    covariance = together / texts - frequency[:, None] * frequency
    directions = np.linalg.eigh(weights[:, None] * covariance * weights).eigenvectors[:, -FEATURES:]
    left, _, right = np.linalg.svd((weights[:, None] * directions).T @ earlier)
    projection: FloatArray = weights[:, None] * (directions @ (left @ right))
    return projection


def _packed(array: NDArray[Any]) -> str:
    return b64encode(compress(array.astype(array.dtype.newbyteorder("<")).tobytes(), 1)).decode()


def _unpacked(text: str, kind: np.dtype[Any]) -> NDArray[Any]:
    return np.frombuffer(decompress(b64decode(text)), kind.newbyteorder("<")).astype(kind)
