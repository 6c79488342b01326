"""What recalls similar successes, by the configuration: by their words, or by a server's embeddings."""

from upturn.config import ApiKeys, PoolConfig
from upturn.loop.embeddings import EmbeddingServer
from upturn.pool import MakeEmbedder, Pool, by_words, stored_by


def embedder_of(settings: PoolConfig, keys: ApiKeys, pool: Pool) -> MakeEmbedder:
    """Returns what makes the embedder of each tenant; a server's embeddings are stored in the pool."""
    if settings.embeddings is None:
        return by_words
    server = EmbeddingServer(settings.embeddings, keys)
    return stored_by(pool, server.name, server)
