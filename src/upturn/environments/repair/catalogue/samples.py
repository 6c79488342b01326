"""Inputs that are drawn for the functions of packages."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

Draw: TypeAlias = Callable[[Random], tuple[Any, ...]]
"""The positional arguments of one call."""


class Package(NamedTuple):
    """A package of ``packages`` with inputs of its functions."""

    name: str
    inputs: dict[str, dict[str, Draw]]
    """By module, then by function."""


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = (
    *("river", "stone", "paper", "light", "garden", "the", "of", "and", "to", "a", "winter", "table", "green"),
    *("horse", "cloud", "or", "an", "bread", "iron", "salt", "north", "field", "copper"),
)
_ENDS = ("", "", "", "", ",", ".", "!", " -")


def number(rng: Random, low: int, high: int) -> int:
    """Between both, inclusive; every fourth one is a bound."""
    return rng.choice((low, high)) if rng.random() < 0.25 else rng.randint(low, high)


def numbers(rng: Random, low: int, high: int, most: int) -> list[int]:
    """A list of up to ``most``."""
    return [rng.randint(low, high) for _ in range(rng.randint(0, most))]


def word(rng: Random, letters: str = "abc", most: int = 6, least: int = 0) -> str:
    """Letters of few kinds, so that they repeat."""
    return "".join(rng.choice(letters) for _ in range(rng.randint(least, most)))


def sentence(rng: Random, most: int = 8, least: int = 0) -> str:
    """Words with punctuation and capitals."""
    parts = []
    for _ in range(rng.randint(least, most)):
        part = rng.choice(_WORDS)
        parts.append((part.capitalize() if rng.random() < 0.3 else part) + rng.choice(_ENDS))
    return " ".join(parts)


def some(rng: Random, items: Sequence[str], most: int, least: int = 0) -> list[str]:
    """Items with repetitions."""
    return [rng.choice(items) for _ in range(rng.randint(least, most))]


def names(rng: Random, count: int) -> list[str]:
    """Different letters."""
    return rng.sample(_LETTERS, count)
