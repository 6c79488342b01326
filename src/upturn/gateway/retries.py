"""Answers to marked retries: a client library that sends a request again gets the first answer, not a second call.

Only a marked retry (``x-stainless-retry-count`` above 0) with the same body, of the same client, is a retry. An
equal body alone proves nothing: sampling the same prompt twice is common. Answers are kept in memory for a while.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from time import monotonic

from upturn.loop.online import Client

MARK = b"x-stainless-retry-count"
"""Header of client libraries that mark retries."""
KEPT_SECONDS = 120.0
"""Client libraries retry within seconds."""
KEPT_BYTES = 64_000_000
_NOTHING = -1
LARGEST_ANSWER = 4_000_000
"""Bytes; a larger answer is not kept."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A complete answer."""

    headers: Mapping[str, str]
    content: bytes
    is_streamed: bool


@dataclass(slots=True)
class _Kept:
    """The bytes of an answer, as far as it is kept."""

    largest: int
    """Bytes; a larger answer is not kept."""
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, content: bytes) -> None:
        """Adds a part, unless the answer is too large already."""
        self.size += len(content)
        if self.size <= self.largest:
            self.parts.append(content)


class _Recording:
    """The answer to one request, which a retry may wait for."""

    def __init__(self, largest: int) -> None:
        self.done: asyncio.Future[Answered | None] = asyncio.get_running_loop().create_future()
        self.since = monotonic()
        self._kept = _Kept(largest)
        self._headers: Mapping[str, str] = {}
        self._is_streamed = False

    def start(self, headers: Mapping[str, str], *, is_streamed: bool) -> _Kept:
        """Begins a new answer."""
        self._headers, self._is_streamed, self._kept = headers, is_streamed, _Kept(self._kept.largest)
        return self._kept

    def finish(self) -> None:
        """The answer is complete."""
        if self._kept.size <= self._kept.largest:
            self.done.set_result(Answered(self._headers, b"".join(self._kept.parts), self._is_streamed))

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return sum(map(len, self._kept.parts))


class RecentAnswers:
    """The answers of the last minutes, for retries. For one event loop."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._recordings: OrderedDict[bytes, _Recording] = OrderedDict()
        self._bytes = 0
        self._clock = clock

    def key(self, client: Client, dialect: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Returns what a request and its retries have in common; empty = the client's library marks no retries."""
        if "x-stainless-retry-count" not in headers:
            return b""
        return blake2b(f"{client.scope()}\0{dialect}\0".encode() + body, digest_size=16).digest()

    async def earlier(self, key: bytes, headers: Mapping[str, str]) -> Answered | None:
        """Returns the first answer if this is a marked retry, once it is complete; None = serve the request."""
        if headers.get("x-stainless-retry-count", "0") in ("", "0") or key not in self._recordings:
            return None
        return await asyncio.shield(self._recordings[key].done)

    @contextmanager
    def recording(self, key: bytes) -> Iterator[_Recording]:
        """Keeps the answer that is made in the block; one that is not complete at its end is dropped."""
        recording = _Recording(LARGEST_ANSWER if key else _NOTHING)
        if not key:
            yield recording
            return
        self._drop_old()
        self._drop(key)  # the same body again, without a mark
        self._recordings[key] = recording
        try:
            yield recording
        finally:
            is_kept = self._recordings.get(key) is recording
            if not recording.done.done():
                recording.done.set_result(None)
                if is_kept:
                    del self._recordings[key]
            elif is_kept:
                self._bytes += recording.size

    def _drop_old(self) -> None:
        while self._recordings:
            key, oldest = next(iter(self._recordings.items()))
            is_old = self._clock() - oldest.since > KEPT_SECONDS or self._bytes > KEPT_BYTES
            if not is_old or not oldest.done.done():
                return
            self._drop(key)

    def _drop(self, key: bytes) -> None:
        recording = self._recordings.pop(key, None)
        if recording is not None and recording.done.done():
            self._bytes -= recording.size
