"""What a gateway makes of the texts of calls, by its configuration: families, features, and learning both."""

from typing import NamedTuple

from upturn.arbiter.texts import TextBasis, TextClusters, TextLearner
from upturn.config import FEATURE_POLICIES, ApiKeys, Config, EmbeddingsConfig, TimeoutConfig, UpstreamConfig
from upturn.loop.online import CallTexts, FamilyGuess, TextEmbedder
from upturn.models.upstreams import Endpoint, EndpointUpstream
from upturn.pool import Pool


class Texts(NamedTuple):
    """The parts that look at texts."""

    calls: CallTexts
    learner: TextLearner | None
    """None = nothing is learned from texts."""

    async def close(self) -> None:
        """Ends all connections."""
        if self.calls.embedder is not None:
            await self.calls.embedder.close()


def open_texts(config: Config, keys: ApiKeys, pool: Pool) -> Texts:
    """Returns the parts, with everything learned that the pool has."""
    settings = config.gateway
    has_features = config.routing.policy in FEATURE_POLICIES
    clusters = TextClusters(settings.clusters) if settings.clusters else None
    basis = TextBasis() if has_features and settings.text_features == "svd" else None
    learner = None if clusters is None and basis is None else TextLearner(pool, clusters=clusters, basis=basis)
    if learner is not None:
        learner.start()
    embedder = None
    if (server := settings.embeddings) is not None:
        embedder = TextEmbedder(embeddings_upstream(server, keys), dimensions=server.dimensions)
    return Texts(CallTexts(FamilyGuess(settings.families, clusters), basis, embedder), learner)


def embeddings_upstream(settings: EmbeddingsConfig, keys: ApiKeys) -> EndpointUpstream:
    """Returns the server of embeddings."""
    limit = settings.timeout_seconds
    timeouts = TimeoutConfig(connect=limit, first_token=limit, between_tokens=limit, whole=limit)
    endpoint = Endpoint(
        settings.url,
        settings.model,
        UpstreamConfig(timeouts=timeouts, retries=0),
        keys.of(settings),
    )
    return EndpointUpstream(endpoint)
