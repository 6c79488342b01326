"""Features of texts: hashed at first, then principal directions, with the same bits whenever they are learned."""

import json
from functools import cache
from math import isclose
from random import Random

import numpy as np
import pytest

from tests.arbiter.texts.test_cluster import stream
from upturn.arbiter.texts import FEATURES, TextBasis, text_buckets
from upturn.arbiter.texts.basis import FIRST_FIT, GROWTH

TEXTS = stream(FIRST_FIT * GROWTH)


@cache
def learned(count: int) -> TextBasis:
    """Returns what the first texts teach; tests must not change it."""
    basis = TextBasis()
    for _, buckets in TEXTS[:count]:
        basis.learn(buckets)
    return basis


def separation(basis: TextBasis) -> float:
    """Mean similarity of two texts on one topic, less that of two texts on different topics."""
    rng = Random(0)
    features = [(topic, np.array(basis.features(buckets))) for topic, buckets in stream(200, seed=1)]
    pairs = [rng.sample(features, 2) for _ in range(4_000)]
    same = [float(one @ two) for (topic, one), (other, two) in pairs if topic == other]
    others = [float(one @ two) for (topic, one), (other, two) in pairs if topic != other]
    return float(np.mean(same) - np.mean(others))


def test_features_have_length_one_and_none_without_words() -> None:
    basis = learned(FIRST_FIT)
    values = basis.features(text_buckets("reply to the mail"))
    assert len(values) == FEATURES
    assert isclose(sum(value * value for value in values), 1.0, abs_tol=1e-5)
    assert basis.features(()) == (0.0,) * FEATURES
    assert TextBasis().features(()) == (0.0,) * FEATURES


def test_a_fit_separates_topics_better_than_hashing() -> None:
    assert separation(learned(FIRST_FIT)) > separation(TextBasis()) + 0.1


def test_fits_come_at_four_times_the_texts() -> None:
    counts = (FIRST_FIT - 1, FIRST_FIT, FIRST_FIT * GROWTH - 1, FIRST_FIT * GROWTH)
    assert [learned(count).fits for count in counts] == [0, 1, 1, 2]


def test_a_fit_keeps_the_direction_of_the_earlier_features() -> None:
    before, after = learned(FIRST_FIT * GROWTH - 1), learned(FIRST_FIT * GROWTH)
    buckets = [found for _, found in stream(100, seed=2)]
    similar = [float(np.array(before.features(one)) @ np.array(after.features(one))) for one in buckets]
    assert np.mean(similar) > 0.9


@pytest.mark.parametrize("cut", [0, FIRST_FIT - 1, FIRST_FIT, FIRST_FIT + 1])
def test_a_restored_state_continues_with_the_same_bits(cut: int) -> None:
    whole, second = learned(FIRST_FIT * GROWTH), TextBasis()
    second.restore(json.loads(json.dumps(learned(cut).state())))
    for _, buckets in TEXTS[cut:]:
        second.learn(buckets)
    assert second.state() == whole.state()


def test_texts_without_words_teach_nothing() -> None:
    basis = TextBasis()
    basis.restore(learned(10).state())
    before = basis.state()
    basis.learn(())
    assert basis.state() == before
