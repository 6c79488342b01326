"""The cost of model calls, from their tokens and the declared prices."""

from upturn.config import PriceConfig
from upturn.dialects import TokenUsage

PER = 1_000_000
"""Prices are per million tokens."""


def cost_usd(usage: TokenUsage, price: PriceConfig) -> float:
    """Returns the cost of a call in USD."""
    return tokens_usd(usage.input, usage.cached_input, usage.output, price)


def tokens_usd(read: float, cached: float, written: float, price: PriceConfig) -> float:
    """Returns the cost of tokens in USD. ``read`` includes ``cached``; numbers of tokens may be means."""
    cached_price = price.input if price.cached_input is None else price.cached_input
    return ((read - cached) * price.input + cached * cached_price + written * price.output) / PER
