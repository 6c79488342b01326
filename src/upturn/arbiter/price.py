"""The price of a model call, from its tokens."""

from dataclasses import dataclass
from math import isfinite

PER = 1_000_000
"""Prices are per million tokens."""


@dataclass(frozen=True, slots=True)
class Price:
    """Prices in USD per million tokens, each finite and at least 0."""

    input: float
    output: float
    cached_input: float | None = None
    """None = the price of other input."""

    def __post_init__(self) -> None:
        for value in (self.input, self.output, self.cached_input or 0.0):
            if not (isfinite(value) and value >= 0):
                raise ValueError(f"prices must be finite and at least 0, got {self!r}")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call."""

    input_tokens: int
    """Including ``cached_tokens``."""
    output_tokens: int
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        if min(self.input_tokens, self.output_tokens, self.cached_tokens) < 0:
            raise ValueError(f"tokens must be at least 0, got {self!r}")
        if self.cached_tokens > self.input_tokens:
            raise ValueError(f"cached_tokens are part of input_tokens, got {self!r}")


def cost_usd(usage: Usage, price: Price) -> float:
    """Returns the cost of a call in USD."""
    cached = price.input if price.cached_input is None else price.cached_input
    fresh = usage.input_tokens - usage.cached_tokens
    return (fresh * price.input + usage.cached_tokens * cached + usage.output_tokens * price.output) / PER
