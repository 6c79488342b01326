"""Exact search for the rows with the largest dot products. Pure."""

import numpy as np
from numpy.typing import NDArray

from upturn.pool.retrieval.embedder import FloatArray

_DECIMALS = 6
"""Similarities that differ by less are ties: a product of vectors has rounding errors that depend on its place."""


def nearest(matrix: FloatArray, query: FloatArray, k: int, allowed: NDArray[np.bool_]) -> list[tuple[int, float]]:
    """Returns at most k allowed rows of the matrix (N, D) with their similarity to the query (D,), largest first.

    ``allowed`` (N,): False = the row is not returned. Rows of equal similarity are in their order.
    """
    rows = np.flatnonzero(allowed)
    similarities = np.round((matrix @ query)[rows].astype(np.float64), _DECIMALS) + 0.0  # no negative zero
    if k < len(rows):
        least = similarities[np.argpartition(-similarities, k - 1)[:k]].min()
        rows, similarities = rows[similarities >= least], similarities[similarities >= least]
    order = np.lexsort((rows, -similarities))[:k]
    return [(int(rows[place]), float(similarities[place])) for place in order]
