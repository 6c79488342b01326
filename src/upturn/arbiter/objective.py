"""The objective of routing: quality minus weighted cost, latency and switching.

A policy estimates quality, and maximises it minus the handicap of each version, which is computed here from the
mean tokens and seconds of its earlier calls (``consumption``) and its price of now. The handicaps are inputs of the
policy, so its probabilities, and the logged propensities, stay exact. They are stored with the decision.
"""

from collections.abc import Callable, Sequence
from math import fsum

from upturn.arbiter.consumption import Consumption, Expected
from upturn.arbiter.price import tokens_usd
from upturn.config import ObjectiveConfig, PriceConfig
from upturn.records import Forecast


class Objective:
    """Forecasts costs and latencies, and weighs them. For one thread."""

    def __init__(
        self, weights: ObjectiveConfig, consumption: Consumption, price: Callable[[str], PriceConfig | None]
    ) -> None:
        """``price``: of an agent version's id; None = unknown."""
        self.weights = weights
        self.consumption = consumption
        self._price = price

    def forecasts(self, family: str, versions: Sequence[str]) -> list[Forecast]:
        """Returns the forecast of each version, in their order.

        A version without a price is weighed as the dearest of the others, because its cost is unknown, not 0.
        """
        expected = [self.consumption.expected(family, version) for version in versions]
        pairs = zip(expected, versions, strict=True)
        costs = [expected_cost(used, self._price(version)) for used, version in pairs]
        seconds = [used.seconds for used in expected]
        weighed = zip(costs, seconds, handicaps(self.weights, costs, seconds), strict=True)
        return [Forecast(cost, duration, handicap) for cost, duration, handicap in weighed]


def handicaps(weights: ObjectiveConfig, costs: Sequence[float | None], seconds: Sequence[float]) -> list[float]:
    """Returns the handicap of each version from its expected cost (None = unknown) and seconds."""
    dearest = max((cost for cost in costs if cost is not None), default=0.0)
    return [
        fsum((weights.cost_weight * (dearest if cost is None else cost), weights.latency_weight * duration))
        for cost, duration in zip(costs, seconds, strict=True)
    ]


def expected_cost(used: Expected, price: PriceConfig | None) -> float | None:
    """Returns the expected cost in USD; None = the price is unknown."""
    if price is None:
        return None
    return tokens_usd(used.input_tokens, used.cached_tokens, used.output_tokens, price)
