"""Similar successes: embeddings of instructions, and exact search among what a tenant's agents did well.

``embedder`` is the contract of embeddings, ``latent`` the default one, which needs no model; ``search`` finds
neighbours, ``successes`` reads them, and ``recall`` has the rules of what may be found. Start with ``recall``.
"""

from upturn.pool.retrieval.embedder import Embedder
from upturn.pool.retrieval.latent import LatentEmbedder
from upturn.pool.retrieval.recall import (
    MakeEmbedder,
    PoolRecall,
    Question,
    Similar,
    SuccessIndex,
    by_words,
    recall_before,
    task_question,
)
from upturn.pool.retrieval.stored import (
    StoredEmbedder,
    embedding_key,
    forget_embeddings,
    stored_by,
)
from upturn.pool.retrieval.successes import last_point

__all__ = [
    "Embedder",
    "LatentEmbedder",
    "MakeEmbedder",
    "PoolRecall",
    "Question",
    "Similar",
    "StoredEmbedder",
    "SuccessIndex",
    "by_words",
    "embedding_key",
    "forget_embeddings",
    "last_point",
    "recall_before",
    "stored_by",
    "task_question",
]
