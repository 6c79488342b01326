"""The sketch of a text: which of 512 buckets its words fall into.

It is all of a text that is stored for good: 64 bytes, in which every bucket stands for a 512th of all words.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

BUCKETS = 512
_MOST_WORDS = 128
"""Only the first distinct words count, so that at most a quarter of the buckets is used."""
_MAX_CHARACTERS = 4_000
_WORD = re.compile(r"[^\W\d_]{2,}")
"""Words of at least two letters: single letters and numbers say little about what a text is about."""


def text_buckets(text: str) -> tuple[int, ...]:
    """Returns the buckets of the text's words, ascending; empty = it has no words."""
    words = dict.fromkeys(_WORD.findall(text[:_MAX_CHARACTERS].lower()))
    return tuple(sorted({_bucket(word) for word in list(words)[:_MOST_WORDS]}))


def encode_buckets(buckets: Sequence[int]) -> str:
    """Returns buckets as 128 hexadecimal digits; empty = there are none."""
    if not buckets:
        return ""
    bits = 0
    for bucket in buckets:
        bits |= 1 << bucket
    return bits.to_bytes(BUCKETS // 8).hex()


def buckets_of(sketch: str) -> tuple[int, ...]:
    """Returns the buckets of an encoded sketch; raises ValueError for other text."""
    bits = int.from_bytes(bytes.fromhex(sketch))
    if bits >= 1 << BUCKETS:
        raise ValueError(f"a sketch has at most {BUCKETS // 4} hexadecimal digits, got {len(sketch)}")
    buckets: list[int] = []
    while bits:
        lowest = bits & -bits
        buckets.append(lowest.bit_length() - 1)
        bits ^= lowest
    return tuple(buckets)


@lru_cache(maxsize=65_536)
def _bucket(word: str) -> int:
    digest = blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % BUCKETS
