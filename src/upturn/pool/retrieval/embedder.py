"""The contract of embeddings of texts."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]


class Embedder(Protocol):
    """Makes vectors whose dot product is the similarity of two texts. The same text has the same vector."""

    name: str
    """Names the model and its version: vectors of two names are never compared."""

    def documents(self, texts: Sequence[str]) -> FloatArray:
        """Returns an array (N, D) with a row of length 1 for each text; 0 for a text without words."""
        ...

    def query(self, text: str) -> FloatArray:
        """Returns a vector (D,) of length 1, or less where the text has unknown words."""
        ...
