"""Exact search."""

import numpy as np

from upturn.pool.retrieval.search import nearest


def test_rows_are_those_of_a_full_sort_and_ties_keep_their_order() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.integers(-2, 3, (60, 4)).astype(np.float32)
    query = np.array([1.0, 0.5, -1.0, 0.25], np.float32)
    allowed = rng.random(60) < 0.7
    similarities = (matrix @ query).tolist()
    for k in (1, 2, 7, 41, 100):
        rows = sorted(np.flatnonzero(allowed).tolist(), key=lambda row: (-similarities[row], row))[:k]
        assert nearest(matrix, query, k, allowed) == [(row, similarities[row]) for row in rows]


def test_nothing_allowed_is_nothing_found() -> None:
    matrix = np.ones((3, 2), np.float32)
    assert nearest(matrix, matrix[0], 2, np.zeros(3, np.bool_)) == []
    assert nearest(matrix[:0], matrix[0], 2, np.zeros(0, np.bool_)) == []
