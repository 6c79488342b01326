"""The features of a task that contextual policies see: 64 numbers, computed from the task alone.

Words of the instruction, the family and the tenant are hashed into fixed ranges with a sign (feature hashing,
Weinberger et al. 2009), so nothing is fitted and equal tasks have equal features in every process. A task may bring
the features of its text in its context instead (``arbiter.texts``, embeddings).
"""

import re
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from math import log1p, sqrt

from upturn.records import JsonValue, Task

TEXT_FEATURES = "text_features"
"""Name of the 32 features of the text in the context of a task that has them."""
SIZE = 64
_PLAIN = 8
"""Constant, level, length, tools, turns, images, schema, guessed family."""
_TENANT = 4
_FAMILY = 20
_TEXT = SIZE - _PLAIN - _TENANT - _FAMILY
_MAX_CHARACTERS = 4000
"""Only the beginning of a longer instruction is hashed."""
_DIGITS = 6
"""Significant digits; the log stores the features of every decision."""
_WORD = re.compile(r"\w+")


def task_features(task: Task) -> tuple[float, ...]:
    """Returns the 64 features of a task; each hashed part has length 1, or is 0 if it has no words."""
    context = task.context
    plain = (
        1.0,
        task.level / 5,
        log1p(len(task.instruction)) / 10,
        log1p(_number(context.get("tools"))) / 3,
        log1p(_number(context.get("turns"))) / 3,
        float(context.get("has_images") is True),
        float(context.get("has_schema") is True),
        float(context.get("is_guess") is True),
    )
    return (
        tuple(map(_rounded, plain))
        + _hashed(task.tenant, _TENANT)
        + _hashed_name(task.family)
        + _text_features(task)
    )


def _text_features(task: Task) -> tuple[float, ...]:
    """Returns the features of the text that the context has, otherwise hashed words of the instruction."""
    known = task.context.get(TEXT_FEATURES)
    if isinstance(known, list) and len(known) == _TEXT:
        return tuple(float(value) for value in known if isinstance(value, int | float))
    return _hashed_text(task.instruction[:_MAX_CHARACTERS])


def _number(value: JsonValue) -> float:
    """Returns a count in the context; 0 for anything else, also for negative numbers."""
    return max(0.0, float(value)) if isinstance(value, int | float) else 0.0


@lru_cache(maxsize=4096)
def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


@lru_cache(maxsize=4096)
def _hashed(name: str, size: int) -> tuple[float, ...]:
    return _vector([name], size)


@lru_cache(maxsize=4096)
def _hashed_name(family: str) -> tuple[float, ...]:
    """Returns a family's part: two positions, so that two families are equal with probability 1 in 1,600 only."""
    return _vector([f"1 {family}", f"2 {family}"], _FAMILY)


@lru_cache(maxsize=256)
def _hashed_text(text: str) -> tuple[float, ...]:
    words = _WORD.findall(text.lower())
    return _vector([*words, *(f"{one} {two}" for one, two in pairwise(words))], _TEXT)


def _vector(words: list[str], size: int) -> tuple[float, ...]:
    """Returns the signed counts of hashed words, scaled to length 1; 0 without words."""
    counts = [0.0] * size
    for word in words:
        digest = int.from_bytes(blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest())
        counts[(digest >> 1) % size] += 1.0 if digest & 1 else -1.0
    norm = sqrt(sum(count * count for count in counts))
    return tuple(float(f"{count / norm:.{_DIGITS}g}") if norm else 0.0 for count in counts)
