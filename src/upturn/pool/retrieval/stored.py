"""Embeddings by a server's model, which are stored: each instruction is sent once.

Instructions are anonymised before they are sent. A stored vector is found by the hash of what was sent, its tenant
and the model's name. Not here: the requests (``loop.embeddings``).
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from sqlalchemy import Connection, delete, select

from upturn.errors import StoreError
from upturn.pool.database import insert_new
from upturn.pool.privacy import redact
from upturn.pool.retrieval.embedder import FloatArray
from upturn.pool.schema import embeddings
from upturn.pool.store import Pool

Ask = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Returns the embeddings of texts, in order."""
TEXTS_AT_ONCE = 64
"""Texts of a request; what they were answered is stored before the next one."""
_IDS_PER_QUERY = 500
_FLOAT = np.dtype("<f4")


def embedding_key(instruction: str) -> str:
    """Returns the hash by which the embedding of an instruction is found."""
    return hashlib.sha256(redact(instruction).encode(errors="surrogatepass")).hexdigest()


class StoredEmbedder:
    """The embeddings of one tenant's texts by one model; see ``Embedder``."""

    def __init__(self, pool: Pool, tenant: str, model: str, ask: Ask) -> None:
        self.name = model
        self._pool, self._tenant, self._ask = pool, tenant, ask
        self._dimensions: int | None = None
        """None = no vector is known yet."""

    def documents(self, texts: Sequence[str]) -> FloatArray:
        """Returns an array (N, D) with a row of length 1 for each text, after all are stored.

        Raises ModelError where the server gives none, and StoreError for vectors of another length than the others.
        """
        keys = [embedding_key(text) for text in texts]
        known = self._stored(keys)
        missing = {key: redact(text) for key, text in zip(keys, texts, strict=True) if key not in known}
        for page in _pages(list(missing), TEXTS_AT_ONCE):
            vectors = dict(zip(page, self._asked([missing[key] for key in page]), strict=True))
            self._pool.write(partial(self._store, vectors=vectors))
            known |= vectors
        return np.stack([known[key] for key in keys]) if keys else np.zeros((0, self._dimensions or 1), np.float32)

    def query(self, text: str) -> FloatArray:
        """Returns a vector (D,) of length 1, which is not stored; raises as ``documents``."""
        known = self._stored([embedding_key(text)])
        return next(iter(known.values())) if known else self._asked([redact(text)])[0]

    def _stored(self, keys: Sequence[str]) -> dict[str, FloatArray]:
        found: dict[str, FloatArray] = {}
        table = embeddings.c
        query = select(table.digest, table.vector).where(table.tenant == self._tenant, table.model == self.name)
        with self._pool.engine.connect() as connection:
            for page in _pages(keys, _IDS_PER_QUERY):
                for row in connection.execute(query.where(table.digest.in_(page))):
                    found[row.digest] = self._checked(np.frombuffer(row.vector, _FLOAT).astype(np.float32))
        return found

    def _asked(self, texts: Sequence[str]) -> list[FloatArray]:
        rows = [np.asarray(vector, np.float64) for vector in self._ask(texts)]
        return [self._checked((row / np.sqrt(row @ row)).astype(np.float32)) for row in rows]

    def _checked(self, vector: FloatArray) -> FloatArray:
        if self._dimensions is None:
            self._dimensions = len(vector)
        if len(vector) != self._dimensions:
            raise StoreError(
                f"model {self.name!r} gives embeddings of {len(vector)} numbers, and others of it have "
                f"{self._dimensions}; vectors of two models cannot be compared: give the other one another name"
            )
        return vector

    def _store(self, connection: Connection, *, vectors: dict[str, FloatArray]) -> None:
        rows = [
            {"tenant": self._tenant, "model": self.name, "digest": key, "vector": vector.astype(_FLOAT).tobytes()}
            for key, vector in vectors.items()
        ]
        insert_new(embeddings).run(connection, rows)


def stored_by(pool: Pool, model: str, ask: Ask) -> Callable[[str, Sequence[str]], StoredEmbedder]:
    """Returns what makes the embedder of a tenant (``recall.MakeEmbedder``)."""
    return lambda tenant, _: StoredEmbedder(pool, tenant, model, ask)


def forget_embeddings(connection: Connection, instructions: Sequence[str], *, tenant: str) -> None:
    """Deletes the tenant's embeddings of these instructions."""
    for page in _pages([embedding_key(text) for text in instructions], _IDS_PER_QUERY):
        table = embeddings.c
        connection.execute(delete(embeddings).where(table.tenant == tenant, table.digest.in_(page)))


def _pages(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
