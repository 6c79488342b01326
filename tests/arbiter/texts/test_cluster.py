"""Clusters of texts: similar texts share a name, names stay, and their number is bounded."""

import json
from collections import Counter
from random import Random

import pytest

from upturn.arbiter.texts import TextClusters, text_buckets
from upturn.arbiter.texts.cluster import ESTABLISHED

TOPICS = {
    "mail": ["mail", "inbox", "sender", "reply", "folder", "archive", "subject", "draft", "forward", "attachment"],
    "code": ["function", "test", "bug", "compile", "import", "class", "loop", "refactor", "merge", "branch"],
    "travel": ["flight", "hotel", "booking", "airport", "passenger", "seat", "luggage", "refund", "ticket", "gate"],
}
FILLER = ["please", "could", "you", "the", "for", "me", "with", "and", "now", "this", "that", "some"]


def text(topic: str, rng: Random) -> str:
    return " ".join(rng.sample(TOPICS[topic], 5) + rng.sample(FILLER, 4))


def stream(count: int, seed: int = 0) -> list[tuple[str, tuple[int, ...]]]:
    rng = Random(seed)
    topics = [rng.choice(list(TOPICS)) for _ in range(count)]
    return [(topic, text_buckets(text(topic, rng))) for topic in topics]


def learned(texts: list[tuple[str, tuple[int, ...]]], most: int = 8) -> TextClusters:
    clusters = TextClusters(most)
    for _, buckets in texts:
        clusters.learn(buckets)
    return clusters


def test_topics_become_clusters() -> None:
    clusters = learned(stream(600))
    found: dict[str | None, Counter[str]] = {}
    later = stream(300, seed=1)
    for topic, buckets in later:
        found.setdefault(clusters.find(buckets), Counter())[topic] += 1
    named = {name: counts for name, counts in found.items() if name is not None}
    assert sum(counts.total() for counts in named.values()) > 0.95 * len(later)
    assert sum(max(counts.values()) for counts in named.values()) > 0.95 * len(later)
    assert {counts.most_common(1)[0][0] for counts in named.values()} == set(TOPICS)


def test_names_stay_and_are_bounded() -> None:
    texts = stream(400)
    clusters = TextClusters(2)
    names: list[str] = []
    for _, buckets in texts:
        clusters.learn(buckets)
        assert clusters.names[: len(names)] == names
        names = list(clusters.names)
    assert names == ["cluster-1", "cluster-2"]


def test_a_cluster_has_no_name_before_it_has_enough_texts() -> None:
    clusters = learned(stream(60))
    fresh = text_buckets("volcano eruption lava crater magma ash")
    for _ in range(ESTABLISHED):
        assert clusters.find(fresh) is None
        clusters.learn(fresh)
    assert clusters.find(fresh) is not None


def test_texts_without_words_belong_to_no_cluster_and_teach_none() -> None:
    clusters = learned(stream(100))
    before = clusters.state()
    clusters.learn(())
    assert clusters.find(()) is None
    assert clusters.state() == before


@pytest.mark.parametrize("cut", [0, 1, 63, 64, 65, 200])
def test_a_restored_state_continues_with_the_same_bits(cut: int) -> None:
    texts = stream(300)
    whole, first, second = learned(texts), learned(texts[:cut]), TextClusters(8)
    second.restore(json.loads(json.dumps(first.state())))
    for _, buckets in texts[cut:]:
        second.learn(buckets)
    assert json.dumps(second.state()) == json.dumps(whole.state())
