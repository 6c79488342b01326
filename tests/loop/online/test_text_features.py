"""Text features of calls: where they come from, what is recorded, and a server that does not answer."""

import json
from math import sqrt
from typing import Any

import pytest

from tests.loop.online.online_desk import Desk, Scripted
from tests.loop.online.test_family import arrival, served
from upturn.arbiter import LinearThompson, RoutingPolicy, Uniform, features_of
from upturn.arbiter.policies import make_policy
from upturn.arbiter.texts import FEATURES, TextBasis, TextLearner, buckets_of, text_buckets
from upturn.config import FEATURE_POLICIES, USED_BY_POLICY, EmbeddingsConfig, GatewayConfig, RoutingConfig
from upturn.errors import ConfigError
from upturn.loop.online import CallTexts, TextEmbedder
from upturn.loop.online.text_features import folded
from upturn.models.upstreams import Forwarded, UpstreamError
from upturn.records import Task


class Server(Scripted):
    """An upstream whose embedding is scripted."""

    def __init__(self, content: object = None) -> None:
        super().__init__("server")
        self.content = content
        self.asked: list[object] = []
        self.is_closed = False

    async def embed(self, body: bytes) -> Forwarded:
        self.asked.append(json.loads(body))
        if self.error is not None:
            raise self.error
        return Forwarded(json.dumps(self.content).encode(), 1)

    async def close(self) -> None:
        self.is_closed = True


def answer(*values: object) -> object:
    return {"data": [{"embedding": list(values)}]}


def route_by(desk: Desk, policy: RoutingPolicy, texts: CallTexts) -> None:
    desk.service.router.policy = policy
    desk.service.texts = texts


async def test_a_replaced_server_is_asked_no_more_and_closed_at_the_end() -> None:
    first, second = Server(answer(1.0, 0.0)), Server(answer(0.0, 1.0))
    embedder = TextEmbedder(first)
    await embedder.features("a")
    embedder.replace(second)
    await embedder.features("b")
    assert (len(first.asked), len(second.asked), first.is_closed) == (1, 1, False)
    await embedder.close()
    assert (first.is_closed, second.is_closed) == (True, True)


async def test_features_begin_hashed_and_are_then_fitted_to_what_is_stored(desk: Desk) -> None:
    basis = TextBasis()
    learner = TextLearner(desk.pool, basis=basis)
    learner.start()
    route_by(desk, LinearThompson(), CallTexts(basis=basis))
    first = await served(desk, arrival("reply to the mail of Ann"))
    assert first.text_source == "hashing"
    assert first.features[-FEATURES:] == TextBasis().features(text_buckets("reply to the mail of Ann"))
    assert buckets_of(first.sketch) == text_buckets("reply to the mail of Ann")
    for number in range(200):
        basis.learn(text_buckets(f"word{'abcdefghij'[number % 10]} other mail"))
    second = await served(desk, arrival("reply to the mail of Ann"))
    assert second.text_source == "svd"
    assert second.features[-FEATURES:] == basis.features(text_buckets("reply to the mail of Ann"))


async def test_an_episode_teaches_once(desk: Desk) -> None:
    route_by(desk, LinearThompson(), CallTexts(basis=TextBasis()))
    sketches = [(await served(desk, arrival("reply", episode="e"))).sketch for _ in range(2)]
    assert [bool(sketch) for sketch in sketches] == [True, False]


async def test_policies_without_features_record_no_source(desk: Desk) -> None:
    route_by(desk, Uniform(), CallTexts())
    found = await served(desk, arrival("reply"))
    assert (found.features, found.text_source, found.sketch) == ((), "", "")


async def test_embeddings_are_asked_once_per_text(desk: Desk) -> None:
    server = Server(answer(3.0, 4.0))
    route_by(desk, LinearThompson(), CallTexts(embedder=TextEmbedder(server, dimensions=2)))
    for _ in range(2):
        found = await served(desk, arrival("reply"))
        assert found.text_source == "embeddings"
        assert found.features[-FEATURES:] == (0.6, 0.8, *(0.0,) * 30)
    assert server.asked == [{"model": "", "input": "reply", "dimensions": 2}]


@pytest.mark.parametrize(
    "content",
    [
        answer(),
        answer(0.0),
        answer("a"),
        answer(float("nan")),
        answer(1e308, 1e308),
        answer(*([1.0] * 20_000)),
        {"data": []},
        [],
        "text",
        None,
    ],
)
async def test_an_unusable_embedding_falls_back_to_hashing(desk: Desk, content: object) -> None:
    server = Server(content)
    route_by(desk, LinearThompson(), CallTexts(embedder=TextEmbedder(server)))
    found = await served(desk, arrival("reply"))
    plain = LinearThompson().features(Task(id="x", instruction="reply", family="general", environment="call"))
    assert (found.text_source, found.features[-FEATURES:]) == ("hashing", plain[-FEATURES:])


async def test_a_server_that_fails_is_asked_again(desk: Desk) -> None:
    server = Server(answer(1.0))
    server.error = UpstreamError("too slow", kind="timeout")
    route_by(desk, LinearThompson(), CallTexts(embedder=TextEmbedder(server)))
    sources = []
    for error in (server.error, None):
        server.error = error
        sources.append((await served(desk, arrival("reply"))).text_source)
    assert sources == ["hashing", "embeddings"]


def test_long_embeddings_are_folded_and_keep_angles() -> None:
    one = [1.0 if index % 3 else -0.5 for index in range(1_536)]
    other = [1.0 if index % 5 else -2.0 for index in range(1_536)]
    folds = [folded(one), folded(other)]
    exact = sum(a * b for a, b in zip(one, other, strict=True)) / sqrt(
        sum(a * a for a in one) * sum(b * b for b in other)
    )
    found = sum(a * b for a, b in zip(*folds, strict=True))
    assert [len(fold) for fold in folds] == [FEATURES, FEATURES]
    assert abs(found - exact) < 0.6  # the deviation of the error is about 1 / sqrt(32) = .18


def test_the_policies_on_features_are_those_of_the_configuration() -> None:
    task = Task(id="x", instruction="reply", family="f", environment="call")
    extra: dict[str, dict[str, Any]] = {
        "rule_based": {"default_agent": "a"},
        "fixed_weights": {"weights": {"a": 1.0}},
    }
    found = {
        name
        for name in USED_BY_POLICY
        if features_of(make_policy(RoutingConfig(policy=name, **extra.get(name, {}))), task)
    }
    assert found == FEATURE_POLICIES


def test_a_server_belongs_to_its_choice() -> None:
    server = EmbeddingsConfig(url="http://127.0.0.1:1/v1", model="m")
    assert GatewayConfig(text_features="embeddings", embeddings=server).embeddings == server
    wrong: list[dict[str, Any]] = [{"text_features": "embeddings"}, {"embeddings": server}]
    for settings in wrong:
        with pytest.raises(ConfigError, match="belong together"):
            GatewayConfig(**settings)
