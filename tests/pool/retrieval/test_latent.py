"""Embeddings without a model."""

import math
import re
from collections import Counter
from itertools import pairwise

import numpy as np

from upturn.pool.retrieval import LatentEmbedder
from upturn.pool.retrieval.latent import DIMENSIONS, FITTED, fitted_count

TEXTS = ["move the mail from ada to work", "move the mail from bob to home", "sum the sales of march", "sum march"]


def cosine(one: str, other: str, fitted: list[str]) -> float:
    """The cosine of two texts' TF-IDF vectors over words and pairs of words, without hashing."""

    def features(text: str) -> Counter[str]:
        words = re.findall(r"\w+", text.casefold())
        return Counter([*words, *map(" ".join, pairwise(words))])

    frequency = Counter(feature for text in fitted for feature in features(text))

    def vector(text: str) -> dict[str, float]:
        return {
            feature: (1 + math.log(count)) * (math.log((1 + len(fitted)) / (1 + frequency[feature])) + 1)
            for feature, count in features(text).items()
        }

    left, right = vector(one), vector(other)
    product = sum(value * right.get(feature, 0.0) for feature, value in left.items())
    return product / math.hypot(*left.values()) / math.hypot(*right.values())


def test_a_small_fit_compares_by_exact_cosines_of_tf_idf() -> None:
    embedder = LatentEmbedder(TEXTS)
    matrix = embedder.documents(TEXTS)
    assert np.allclose((matrix * matrix).sum(axis=1), 1.0, atol=1e-5)
    for query in ("move the mail to work work", "sum of nothing known", "march"):
        expected = [cosine(query, text, TEXTS) for text in TEXTS]
        assert np.allclose(matrix @ embedder.query(query), expected, atol=1e-5)


def test_unknown_words_and_no_words_are_similar_to_nothing() -> None:
    embedder = LatentEmbedder(TEXTS)
    assert not embedder.query("xyzzy plugh").any()
    assert not embedder.query("").any()
    assert not embedder.documents(["", "?!"]).any()
    assert embedder.documents([]).shape == (0, embedder.dimensions)
    nothing = LatentEmbedder([])
    assert nothing.documents(["move"]).tolist() == [[0.0]]
    assert LatentEmbedder(["", "…"]).query("move").tolist() == [0.0]


def test_the_same_texts_give_the_same_vectors_and_name() -> None:
    first, second = LatentEmbedder(TEXTS), LatentEmbedder([*TEXTS, *TEXTS])
    assert first.name == second.name
    assert np.array_equal(first.documents(TEXTS), second.documents(TEXTS))
    assert LatentEmbedder(TEXTS[:3]).name != first.name


def test_the_fit_changes_rarely_while_texts_are_added() -> None:
    assert [fitted_count(count) for count in (0, 3, 63, 64, 255, 256, 5000)] == [0, 3, 63, 64, 64, 256, 4096]
    texts = [f"move mail {number} of {number % 7}" for number in range(300)]
    assert LatentEmbedder(texts[:256]).name == LatentEmbedder(texts).name
    assert LatentEmbedder(texts[:255]).name != LatentEmbedder(texts).name
    assert LatentEmbedder(texts).dimensions <= DIMENSIONS < FITTED


def test_a_usual_text_is_similar_to_itself_also_where_directions_are_left_out() -> None:
    texts = [
        f"move the mail of person{number} to folder{number % 17} and tell chief{number % 29}"
        for number in range(256)
    ]
    embedder = LatentEmbedder(texts)
    matrix = embedder.documents(texts)
    own = np.array([row @ embedder.query(text) for row, text in zip(matrix, texts, strict=True)])
    assert embedder.dimensions == DIMENSIONS
    assert 0.9 < np.median(own) < 1.1
    assert (matrix @ embedder.query("unknown words beside mail")).max() < 0.5
