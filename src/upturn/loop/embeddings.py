"""Embeddings of a server, in OpenAI's form: reading answers, and asking for those of many texts at once."""

import asyncio
from collections.abc import Callable, Sequence
from math import isfinite
from time import sleep
from typing import Any

from pydantic_core import from_json, to_json

from upturn.config import ApiKeys, RecallEmbeddings, TimeoutConfig, UpstreamConfig
from upturn.errors import ModelError
from upturn.models.upstreams import Endpoint, EndpointUpstream, UpstreamError

LARGEST_EMBEDDING = 16_384
_TRIES = 3
_FIRST_WAIT_SECONDS = 0.5
_MAY_PASS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def read_embeddings(content: bytes, count: int) -> list[list[float]]:
    """Returns the embeddings in an answer, in the order of the texts; raises ValueError for anything else."""
    parsed = from_json(content)
    try:
        entries = [(entry.get("index", place), entry["embedding"]) for place, entry in enumerate(parsed["data"])]
    except (TypeError, KeyError, AttributeError) as exc:
        raise ValueError("the server's answer has no data[…].embedding") from exc
    if sorted(index for index, _ in entries) != list(range(count)):
        raise ValueError(f"the server's answer has {len(entries)} embeddings for {count} texts")
    return [_checked(values) for _, values in sorted(entries, key=lambda entry: entry[0])]


def _checked(values: Any) -> list[float]:
    if not isinstance(values, list) or not 0 < len(values) <= LARGEST_EMBEDDING:
        raise ValueError(f"an embedding is no list of 1 to {LARGEST_EMBEDDING} numbers, got {values!r:.100}")
    if not all(isinstance(value, int | float) and isfinite(value) for value in values):
        raise ValueError("an embedding has members that are no finite numbers")
    if not any(values):
        raise ValueError("an embedding has the length 0")
    return [float(value) for value in values]


class EmbeddingServer:
    """Asks for the embeddings of texts; for code without a running event loop."""

    def __init__(
        self, settings: RecallEmbeddings, keys: ApiKeys, *, wait: Callable[[float], object] = sleep
    ) -> None:
        """``wait`` gets the seconds between two tries."""
        self._settings, self._wait = settings, wait
        limit = settings.timeout_seconds
        timeouts = TimeoutConfig(connect=min(5.0, limit), first_token=limit, between_tokens=limit, whole=limit)
        self._endpoint = Endpoint(
            settings.url, settings.model, UpstreamConfig(timeouts=timeouts, retries=0), keys.of(settings)
        )

    @property
    def name(self) -> str:
        """The model's name, by which embeddings are stored."""
        settings = self._settings
        return settings.model if settings.dimensions is None else f"{settings.model}/{settings.dimensions}"

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Returns the embeddings of the texts, in order; failures that may pass are tried again.

        Raises ModelError where the server gives none.
        """
        request: dict[str, Any] = {"model": "", "input": list(texts)}
        if self._settings.dimensions is not None:
            request["dimensions"] = self._settings.dimensions
        for attempt in range(_TRIES):
            try:
                return read_embeddings(asyncio.run(self._ask(to_json(request))), len(texts))
            except UpstreamError as exc:
                is_permanent = exc.status is not None and exc.status not in _MAY_PASS
                if is_permanent or attempt == _TRIES - 1:
                    raise self._error(exc) from exc
                self._wait(_FIRST_WAIT_SECONDS * 2**attempt)
            except ValueError as exc:
                raise self._error(exc) from exc
        raise AssertionError("the last try returns or raises")

    async def _ask(self, body: bytes) -> bytes:
        upstream = EndpointUpstream(self._endpoint)
        try:
            return (await upstream.embed(body)).content
        finally:
            await upstream.close()

    def _error(self, exc: Exception) -> ModelError:
        return ModelError(
            f"no embeddings of {self._settings.model!r} from {self._settings.url!r}: {exc}; check "
            "[pool.embeddings], or remove it to compare by words"
        )
