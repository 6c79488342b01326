"""The cost of model calls, from their tokens and the declared prices."""

from upturn.config import PriceConfig
from upturn.dialects import TokenUsage

PER = 1_000_000
"""Prices are per million tokens."""


def cost_usd(usage: TokenUsage, price: PriceConfig) -> float:
    """Returns the cost of a call in USD."""
    cached = price.input if price.cached_input is None else price.cached_input
    fresh = usage.input - usage.cached_input
    return (fresh * price.input + usage.cached_input * cached + usage.output * price.output) / PER
