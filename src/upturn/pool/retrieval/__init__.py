"""Similar successes: embeddings of instructions, and exact search among what a tenant's agents did well.

``embedder`` is the contract of embeddings, ``latent`` the default one, which needs no model; ``search`` finds
neighbours, ``successes`` reads them, and ``recall`` has the rules of what may be found. Start with ``recall``.
"""

from upturn.pool.retrieval.embedder import Embedder
from upturn.pool.retrieval.latent import LatentEmbedder
from upturn.pool.retrieval.recall import (
    PoolRecall,
    Question,
    Similar,
    SuccessIndex,
    recall_before,
    task_question,
)
from upturn.pool.retrieval.successes import last_point

__all__ = [
    "Embedder",
    "LatentEmbedder",
    "PoolRecall",
    "Question",
    "Similar",
    "SuccessIndex",
    "last_point",
    "recall_before",
    "task_question",
]
