"""The text features of a call for routing policies: from its sketch, or from the embeddings of a server.

Without either, or when the server does not answer in time, the policy hashes the words of the instruction. The
decision records which it was.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from math import sqrt
from typing import Any, NamedTuple

from pydantic_core import to_json

from upturn.arbiter.texts import FEATURES, TextBasis, encode_buckets, text_buckets
from upturn.loop.embeddings import read_embeddings
from upturn.loop.online.family import CallFacts, Family, FamilyGuess
from upturn.models.upstreams import Upstream, UpstreamError
from upturn.records import Decision, TextSource

_MOST_TEXTS = 1_024
"""Embedded texts in memory: the calls of a tool loop have the same last message of the user."""
_DIGITS = 6
_log = logging.getLogger("upturn.gateway")


class TextFeatures(NamedTuple):
    """Features of a text, of length 1."""

    values: tuple[float, ...]
    """Empty = the policy hashes the words itself."""
    source: TextSource


_HASHED = TextFeatures((), "hashing")


class Described(NamedTuple):
    """What a call is about."""

    family: Family
    features: TextFeatures
    sketch: str
    """Empty = nothing is learned from the text."""


class TextEmbedder:
    """Asks a server for embeddings, in OpenAI's form. For one event loop."""

    def __init__(self, upstream: Upstream, *, dimensions: int | None = None) -> None:
        """``dimensions``: asked from the server; None = as many as its model has."""
        self._upstream = upstream
        self._dimensions = dimensions
        self._known: OrderedDict[str, TextFeatures] = OrderedDict()
        self._is_failing = False
        self._replaced: list[Upstream] = []

    def replace(self, upstream: Upstream) -> None:
        """Continues with another connection to the same server; requests in flight end with the earlier one."""
        self._replaced.append(self._upstream)
        self._upstream = upstream

    async def features(self, text: str) -> TextFeatures | None:
        """Returns the features of a text; None = it is empty, or the server gave no usable answer."""
        if not text:
            return None
        if text in self._known:
            self._known.move_to_end(text)
            return self._known[text]
        request: dict[str, Any] = {"model": "", "input": text}
        if self._dimensions is not None:
            request["dimensions"] = self._dimensions
        try:
            answer = await self._upstream.embed(to_json(request))
            features = TextFeatures(folded(read_embeddings(answer.content, 1)[0]), "embeddings")
        except (UpstreamError, ValueError) as exc:
            if not self._is_failing:
                _log.warning("no embedding, words are hashed instead: %s", exc)
            self._is_failing = True
            return None
        self._is_failing = False
        self._known[text] = features
        while len(self._known) > _MOST_TEXTS:
            self._known.popitem(last=False)
        return features

    async def close(self) -> None:
        """Ends all connections."""
        for upstream in (*self._replaced, self._upstream):
            await upstream.close()


_NO_RULES = FamilyGuess()


class CallTexts:
    """What is made of the texts of calls: families where none is named, and features for policies."""

    def __init__(
        self,
        families: FamilyGuess = _NO_RULES,
        basis: TextBasis | None = None,
        embedder: TextEmbedder | None = None,
    ) -> None:
        """Without ``basis`` and ``embedder``, policies hash words."""
        self.families = families
        self.basis = basis
        self.embedder = embedder

    @property
    def are_sketched(self) -> bool:
        """Whether sketches of texts are needed."""
        return self.basis is not None or self.families.clusters is not None

    def describe(
        self, facts: CallFacts, named: str, *, earlier: Decision | None, embedded: TextFeatures | None
    ) -> Described:
        """Returns what a call is about. ``named``: the client's family; empty = it names none.

        ``earlier``: a decision of the episode; its family stays, and its episode teaches no more. ``embedded``: the
        features by a server; None = there are none.
        """
        facts = facts._replace(buckets=text_buckets(facts.text) if self.are_sketched else ())
        if named:
            family = Family(named, "named")
        elif earlier is not None and earlier.family_source:
            family = Family(earlier.family, earlier.family_source)
        else:
            family = self.families.of(facts)
        features = embedded or self._features(facts.buckets)
        return Described(family, features, encode_buckets(facts.buckets) if earlier is None else "")

    def _features(self, buckets: Sequence[int]) -> TextFeatures:
        if self.basis is None or not buckets:
            return _HASHED
        return TextFeatures(self.basis.features(buckets), "svd" if self.basis.fits else "hashing")


def folded(embedding: Sequence[float]) -> tuple[float, ...]:
    """Returns an embedding in 32 numbers of length 1; raises ValueError for an embedding of length 0.

    They are sums over hashed positions with signs (count sketch, Charikar et al. 2002), which keep angles on
    average. Up to 32 numbers keep their positions.
    """
    sums = [0.0] * FEATURES
    for index, value in enumerate(embedding):
        place, sign = (index, 1.0) if len(embedding) <= FEATURES else _place(index)
        sums[place] += sign * value
    length = sqrt(sum(value * value for value in sums))
    if not 0 < length < float("inf"):
        raise ValueError(f"the embedding has the length {length!r}; it must be finite and above 0")
    return tuple(float(f"{value / length:.{_DIGITS}g}") for value in sums)


def _place(index: int) -> tuple[int, float]:
    digest = int.from_bytes(blake2b(str(index).encode(), digest_size=8).digest())
    return (digest >> 1) % FEATURES, 1.0 if digest & 1 else -1.0
