"""Tokens with labels, in blocks, from generated documents."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from upturn.loop.tagger.document import Marked, make_document
from upturn.loop.tagger.name import Split, all_names
from upturn.loop.tagger.prose import all_words
from upturn.pool.privacy.tagger import (
    BUCKETS,
    FREQUENT,
    LABELS,
    REACH,
    Hashes,
    Lexicon,
    hash_of,
    norm_of,
    tokens_of,
)

_UNKNOWN_NAMES, _UNKNOWN_WORDS = 0.7, 0.08
"""Shares of names, and of words in small letters, that are as unknown as those that no list has. An unknown word
with a capital is mostly a name."""
_FREQUENT_COUNT = 3
_IS_NAME = 0.5
Numbers = npt.NDArray[np.int32]


class Block(NamedTuple):
    """Documents in a row, with nothing (number 0) between them."""

    numbers: Numbers
    """(T,) of the distinct tokens; 0 = nothing stands there."""
    labels: Numbers
    """(T,)"""
    features: csr_matrix
    """(distinct tokens, BUCKETS), 1 / sqrt(n) where a token has a feature."""


def labels_of(document: Marked) -> tuple[list[str], list[int]]:
    """Returns the tokens of a document and their labels; a token has one if it stands inside a part."""
    tokens = tokens_of(document.text)
    labels = [0] * len(tokens.words)
    parts = iter(document.parts)
    part = next(parts, None)
    for place, (start, stop) in enumerate(zip(tokens.starts, tokens.stops, strict=True)):
        while part is not None and start >= part[2]:
            part = next(parts, None)
        if part is None:
            break
        if start >= part[1] and stop <= part[2]:
            labels[place] = part[0]
    return tokens.words, labels


def make_block(seed: str, split: Split, tokens: int, lexicon: Lexicon) -> Block:
    """Returns a block of at least this many tokens, which follows from the seed.

    For training, some words are unknown, above all names: so the tagger learns to find unknown ones.
    """
    source = random.Random(seed)
    known: dict[str, int] = {}
    numbers: list[int] = [0] * (REACH + 1)
    labels: list[int] = [0] * (REACH + 1)
    while len(numbers) < tokens:
        words, marks = labels_of(make_document(source, split))
        numbers += [known.setdefault(word, len(known) + 1) for word in words]
        labels += marks
        numbers += [0] * (REACH + 1)
        labels += [0] * (REACH + 1)
    is_person = np.array(labels) == LABELS.index("person")
    named = np.bincount(numbers, weights=is_person, minlength=len(known) + 1)[1:]
    counts = np.bincount(numbers, minlength=len(known) + 1)[1:]
    features: list[list[int]] = []
    for word, share in zip(known, named / counts, strict=True):
        unknown = _UNKNOWN_NAMES if share > _IS_NAME else _UNKNOWN_WORDS if word.islower() else 0.0
        features.append(lexicon.features(word, is_known=split != "train" or source.random() >= unknown))
    return Block(np.array(numbers, np.int32), np.array(labels, np.int32), feature_matrix(features))


def make_lexicon(seed: int, tokens: int) -> tuple[Hashes, Hashes, Hashes]:
    """Returns the hashes of a lexicon: frequent words of documents, words of dictionaries, names of training."""
    source = random.Random(f"{seed} lexicon")
    counts: Counter[int] = Counter()
    while counts.total() < tokens:
        words, _ = labels_of(make_document(source, "train"))
        counts.update(hash_of(word) for word in words if word[0].isalpha())
    ordinary = {hash_of(word) for word in all_words()}
    names = {hash_of(part) for name in all_names("train") for part in re.split(r"[\W\d_]+", name) if part}
    frequent = [
        word for word, count in counts.most_common() if count >= _FREQUENT_COUNT and word not in names - ordinary
    ]
    arrays = (sorted(frequent[:FREQUENT]), sorted(ordinary), sorted(names))
    one, two, three = (np.array(numbers, np.uint32) for numbers in arrays)
    return one, two, three


def feature_matrix(features: list[list[int]]) -> csr_matrix:
    """Returns the features of distinct tokens; row 0 stands for nothing and is empty."""
    counts = np.array([len(row) for row in features])
    flat = np.concatenate([np.array(row, np.int64) for row in features])
    values = np.repeat(norm_of(counts).astype(np.float32) / 1024, counts)
    bounds = np.concatenate(([0, 0], np.cumsum(counts)))
    return csr_matrix((values, flat, bounds), shape=(len(features) + 1, BUCKETS))


def batches(block: Block, size: int) -> Iterator[slice]:
    """Yields the parts of a block, in order."""
    for start in range(0, len(block.numbers) - size, size):
        yield slice(start, start + size)
