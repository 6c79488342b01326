from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.pool.batches.allocation import allocate


@pytest.mark.parametrize(
    ("size", "available", "shares"),
    [
        (9, {"a": 10, "b": 10, "c": 10}, {"a": 3, "b": 3, "c": 3}),
        (10, {"a": 10, "b": 10, "c": 10}, {"a": 4, "b": 3, "c": 3}),
        (9, {"a": 1, "b": 10, "c": 10}, {"a": 1, "b": 4, "c": 4}),
        (9, {"a": 1, "b": 0, "c": 2}, {"a": 1, "b": 0, "c": 2}),
        (1, {}, {}),
    ],
)
def test_shares_are_equal_as_far_as_there_are_points(
    size: int, available: Mapping[str, int], shares: Mapping[str, int]
) -> None:
    assert allocate(size, available) == shares


@given(st.integers(1, 500), st.dictionaries(st.integers(), st.integers(0, 100), max_size=20))
def test_shares_differ_only_for_want_of_points(size: int, available: dict[int, int]) -> None:
    shares = allocate(size, available)
    assert sum(shares.values()) == min(size, sum(available.values()))
    assert all(share <= available[group] for group, share in shares.items())
    largest = max(shares.values(), default=0)
    assert all(share >= min(largest - 1, available[group]) for group, share in shares.items())
