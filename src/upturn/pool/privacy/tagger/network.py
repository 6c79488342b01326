"""The tagger's network in whole numbers, so that the same text gives the same bits on every machine.

For each distinct token: features -> a vector of ``WIDTH`` -> one vector of ``HIDDEN`` for each of the nine places
at which the token can stand beside another one; these are computed once and kept. For each token of a text: the sum
of nine such vectors, a second layer over three neighbours, and a score of each label. All products and sums stay
below 2^24, where float32 is exact, so that the order of a sum does not matter.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from upturn.pool.privacy.tagger.feature import Hashes, Lexicon
from upturn.pool.privacy.tagger.token import SPACE, shortened

Floats: TypeAlias = npt.NDArray[np.float32]
Bytes: TypeAlias = npt.NDArray[np.int8]
Shorts: TypeAlias = npt.NDArray[np.int16]
Ints: TypeAlias = npt.NDArray[np.int32]

REACH = 4
"""Tokens before and behind that the first layer sees."""
PLACES = 2 * REACH + 1
_KEPT = 1 << 14
"""Distinct tokens whose vectors are kept, 14 MB."""
_LARGEST_VECTOR = 2047
_LARGEST_PLACED = 3400
"""The sum of nine and of the bias, which is at most 2047, fits into 16 bits."""
_LARGEST_HIDDEN = 511


class Weights(NamedTuple):
    """The weights as they are stored: bytes, with shifts between the layers."""

    features: Bytes
    """(BUCKETS, WIDTH)"""
    places: Bytes
    """(WIDTH, PLACES * HIDDEN)"""
    hidden_bias: Ints
    """(HIDDEN,)"""
    second: Bytes
    """(3 * HIDDEN, SECOND)"""
    second_bias: Ints
    """(SECOND,)"""
    labels: Bytes
    """(SECOND, LABELS)"""
    labels_bias: Ints
    """(LABELS,)"""
    shifts: Ints
    """(4,): of vectors, placed vectors, the first and the second layer."""
    frequent: Hashes
    """(FREQUENT,) or fewer; see ``Lexicon``."""
    words: Hashes
    names: Hashes


class Network:
    """Scores of labels for the tokens of a text."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.lexicon = Lexicon(weights.frequent, weights.words, weights.names)
        self._hidden = len(weights.hidden_bias)
        self._places: Floats = weights.places.astype(np.float32)
        second = weights.second.astype(np.float32).reshape(3, self._hidden, -1)
        self._second: Floats = np.ascontiguousarray(np.concatenate(list(second), axis=1))  # (HIDDEN, 3 * SECOND)
        self._second_bias: Floats = weights.second_bias.astype(np.float32)
        self._labels: Floats = np.ascontiguousarray(weights.labels.T.astype(np.float32))
        self._labels_bias: Floats = weights.labels_bias.astype(np.float32)[:, None]
        self._forget()

    def _forget(self) -> None:
        self.numbers: dict[str, int] = {SPACE: -1}
        self._unknown: Floats = np.zeros(256, np.float32)
        self._placed: Shorts = np.zeros((PLACES, 256, self._hidden), np.int16)
        self._placed[REACH, 0] = self._weights.hidden_bias

    def numbers_of(self, pieces: list[str]) -> Ints:
        """Returns the numbers of the tokens among the pieces of a text (``pieces_of``)."""
        numbers = list(map(self.numbers.get, pieces))
        if None in numbers:
            numbers = self._all_numbers(pieces, numbers)
        kept: Ints = np.array(numbers, np.int32)
        return kept[kept >= 0]

    def _all_numbers(self, pieces: list[str], known: list[int | None]) -> list[int | None]:
        """Returns the numbers of pieces of which some are new."""
        words = [shortened(piece) if number is None else piece for piece, number in zip(pieces, known, strict=True)]
        new = [word for word in dict.fromkeys(words) if word not in self.numbers]
        if len(self.numbers) + len(new) > _KEPT and len(self.numbers) > 1:
            self._forget()
            new = [word for word in dict.fromkeys(words) if word != SPACE]
        if new:
            self._learn(new)
        return [self.numbers[word] for word in words]

    def scores(self, numbers: Ints) -> Floats:
        """Returns the score of each label for each token, (LABELS, T): whole numbers."""
        count = len(numbers)
        padded = np.zeros(
            count + 2 * REACH + 2, np.int32
        )  # 0 = nothing stands there; one more for the second layer
        padded[REACH + 1 : REACH + 1 + count] = numbers
        total = self._placed[0].take(padded[: count + 2], axis=0)
        for place in range(1, PLACES):
            total += self._placed[place].take(padded[place : place + count + 2], axis=0)
        total >>= int(self._weights.shifts[2])
        first = total.clip(0, _LARGEST_HIDDEN).astype(np.float32)
        parts = (first @ self._second).reshape(count + 2, 3, -1)
        second = parts[:-2, 0] + parts[1:-1, 1]
        second += parts[2:, 2]
        return self._labelled(second)

    def _labelled(self, second: Floats) -> Floats:
        """Returns the scores of labels from the sums of the second layer."""
        second += self._second_bias
        second *= np.float32(2.0 ** -int(self._weights.shifts[3]))
        second = np.floor(second, out=second).clip(0, _LARGEST_HIDDEN)
        scores: Floats = self._labels @ second.T + self._labels_bias
        return scores

    def unknown(self, numbers: Ints) -> Floats:
        """Returns 1 for tokens with a capital that no list knows, 0 for all others."""
        return self._unknown[numbers]

    def _learn(self, tokens: list[str]) -> None:
        """Keeps the vectors of new tokens."""
        start = len(self.numbers)  # the space has none, and 0 stands for nothing
        needed = start + len(tokens)
        if needed > self._placed.shape[1]:
            grown = np.zeros((PLACES, max(needed, 2 * self._placed.shape[1]), self._hidden), np.int16)
            grown[:, : self._placed.shape[1]] = self._placed
            self._unknown = np.resize(self._unknown, grown.shape[1])
            self._placed = grown
        placed = placed_vectors(self._weights, self._places, [self.lexicon.features(token) for token in tokens])
        placed[REACH] += self._weights.hidden_bias.astype(np.int16)
        self._placed[:, start:needed] = placed
        self._unknown[start:needed] = [self.lexicon.is_unknown_capital(token) for token in tokens]
        self.numbers.update(zip(tokens, range(start, needed), strict=True))


def placed_vectors(weights: Weights, places: Floats, features: list[list[int]]) -> Shorts:
    """Returns the vectors of tokens with these features at each place, (PLACES, T, HIDDEN)."""
    counts = np.array([len(numbers) for numbers in features])
    flat = np.concatenate([np.array(numbers, np.int64) for numbers in features])
    sums = np.add.reduceat(weights.features[flat].astype(np.int32), np.cumsum(counts) - counts, axis=0)
    scaled = (sums * norm_of(counts)[:, None]) >> int(weights.shifts[0])
    vectors = np.clip(scaled, -_LARGEST_VECTOR, _LARGEST_VECTOR).astype(np.float32)
    placed = (vectors @ places).astype(np.int32) >> int(weights.shifts[1])
    clipped = np.clip(placed, -_LARGEST_PLACED, _LARGEST_PLACED).astype(np.int16)
    by_place: Shorts = clipped.reshape(len(features), PLACES, -1).transpose(1, 0, 2)
    return by_place


def norm_of(counts: npt.NDArray[np.int_]) -> Ints:
    """Returns 1024 / sqrt(n) for tokens with n features, in whole numbers."""
    norms: Ints = np.array([round(1024 / n**0.5) for n in range(1, 65)], np.int32)[np.minimum(counts, 64) - 1]
    return norms
