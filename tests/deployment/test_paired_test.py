"""Paired tests and Holm's correction against enumerations and hand-computed values."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.deployment.paired_test import holm, paired_worse_p


def test_worse_p_is_the_sign_test_on_pairs() -> None:
    """Five worse, one better: P(X ≥ 5 of 6) = 7/64."""
    assert paired_worse_p([-1, -1, 0, -1, 1, -1, -1, 0], seed=0) == pytest.approx(7 / 64)
    assert paired_worse_p([0, 0, 0], seed=0) == 1.0
    assert paired_worse_p([1, 1, 1], seed=0) == 1.0


def test_worse_p_with_several_sizes_matches_the_enumerated_flips() -> None:
    """Sizes .5 and 1: of the eight sign patterns of (−1, −½, ½), three have a sum at most −1."""
    assert paired_worse_p([-1.0, -0.5, 0.5], seed=1, resamples=40_000) == pytest.approx(3 / 8, abs=0.012)


def test_worse_p_flips_whole_clusters() -> None:
    """Sums −2, −2, 2: the sign test on three, P(X ≥ 2) = 1/2. By task it would be four of six."""
    differences, clusters = [-1, -1, -1, -1, 1, 1], ["a", "a", "b", "b", "c", "c"]
    assert paired_worse_p(differences, seed=0, clusters=clusters) == pytest.approx(1 / 2)
    assert paired_worse_p(differences, seed=0) == pytest.approx(22 / 64)  # P(X ≥ 4 of 6)
    assert paired_worse_p([-1, 1, -1, 1], seed=0, clusters=["a", "a", "b", "b"]) == 1.0


def test_worse_p_of_clusters_matches_the_enumerated_flips() -> None:
    """Sums −3, 1, −2, 1: all 16 sign patterns."""
    clusters = ["a", "a", "a", "b", "c", "c", "d"]
    differences = [-1, -1, -1, 1, -1, -1, 1]
    patterns = [sum(s * size for s, size in zip(signs, (3, 1, 2, 1), strict=True))
                for signs in product((-1, 1), repeat=4)]  # fmt: skip
    expected = sum(total <= -3 for total in patterns) / 16
    assert paired_worse_p(differences, seed=1, resamples=40_000, clusters=clusters) == pytest.approx(
        expected, abs=0.012
    )


def test_holm_by_hand() -> None:
    """Sorted .01, .02, .03, .2 times 4, 3, 2, 1, made monotone."""
    np.testing.assert_allclose(holm([0.03, 0.01, 0.2, 0.02]), [0.06, 0.04, 0.2, 0.06])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_raw_and_bonferroni(p_values: list[float]) -> None:
    adjusted, raw = holm(p_values), np.array(p_values)
    assert (adjusted >= raw - 1e-15).all()
    assert (adjusted <= np.minimum(raw * raw.size, 1.0) + 1e-15).all()
