"""The objective of routing: quality minus weighted cost, latency and switching.

A policy estimates quality, and maximises it minus the handicap of each version, which is computed here from the
mean tokens and seconds of its earlier calls (``consumption``) and its price of now. The handicaps are inputs of the
policy, so its probabilities, and the logged propensities, stay exact. They are stored with the decision.
"""

from collections.abc import Callable, Collection, Sequence
from math import fsum

from upturn.arbiter.constraint import prompt_tokens
from upturn.arbiter.consumption import Consumption, Expected
from upturn.config import ObjectiveConfig, PriceConfig
from upturn.dialects import TokenUsage
from upturn.records import Forecast, Task

PER = 1_000_000
"""Prices are per million tokens."""


def cost_usd(usage: TokenUsage, price: PriceConfig) -> float:
    """Returns the cost of a call in USD."""
    return expected_usd(
        Expected(
            usage.input,
            usage.cached_input,
            usage.output,
            cache_write_tokens=usage.cache_write,
            cache_write_1h_tokens=usage.cache_write_1h,
        ),
        price,
    )


def expected_usd(used: Expected, price: PriceConfig) -> float:
    """Returns the cost of tokens, or of mean tokens, in USD."""
    cached_price = price.input if price.cached_input is None else price.cached_input
    write_price = price.input if price.cache_write is None else price.cache_write
    hour_price = write_price if price.cache_write_1h is None else price.cache_write_1h
    usd = (
        (used.input_tokens - used.cached_tokens - used.cache_write_tokens) * price.input
        + used.cached_tokens * cached_price
        + (used.cache_write_tokens - used.cache_write_1h_tokens) * write_price
        + used.cache_write_1h_tokens * hour_price
        + used.output_tokens * price.output
    )
    return usd / PER


class Objective:
    """Forecasts costs and latencies, and weighs them. For one thread."""

    def __init__(
        self, weights: ObjectiveConfig, consumption: Consumption, price: Callable[[str], PriceConfig | None]
    ) -> None:
        """``price``: of an agent version's id; None = unknown."""
        self.weights = weights
        self.consumption = consumption
        self._price = price

    @property
    def may_switch(self) -> bool:
        """Whether the agent of an episode may change, at a price."""
        return self.weights.switch_weight is not None

    def forecasts(self, family: str, versions: Sequence[str], staying: Collection[str] = ()) -> list[Forecast]:
        """Returns the forecast of each version, in their order.

        ``staying``: the versions of the agent that serves the episode; the others lose its prompt cache. () = there
        is no such agent. A version without a price is weighed as the dearest of the others, because its cost is
        unknown, not 0.
        """
        costs: list[float | None] = []
        seconds: list[float] = []
        for version in versions:
            expected = self.consumption.expected(family, version)
            if staying and version not in staying:
                expected = expected._replace(cached_tokens=0.0)
            costs.append(expected_cost(expected, self._price(version)))
            seconds.append(expected.seconds)
        switches = [bool(staying) and version not in staying for version in versions]
        weighed = zip(costs, seconds, handicaps(self.weights, costs, seconds, switches), strict=True)
        return [Forecast(cost, duration, handicap) for cost, duration, handicap in weighed]

    def expected_usd(self, task: Task, version: str) -> float | None:
        """Returns what a call or task will probably cost, for budgets; None = the version has no price.

        Unlike a forecast, it counts all of a prompt that is longer than usual.
        """
        price = self._price(version)
        used = self.consumption.expected(task.family, version)
        read = max(used.input_tokens, prompt_tokens(task))
        return expected_cost(used._replace(input_tokens=read), price)


def handicaps(
    weights: ObjectiveConfig, costs: Sequence[float | None], seconds: Sequence[float], switches: Sequence[bool]
) -> list[float]:
    """Returns the handicap of each version from its expected cost (None = unknown), seconds, and whether it would
    be a switch."""
    dearest = max((cost for cost in costs if cost is not None), default=0.0)
    switch = weights.switch_weight or 0.0
    return [
        fsum(
            (
                weights.cost_weight * (dearest if cost is None else cost),
                weights.latency_weight * duration,
                switch * is_switch,
            )
        )
        for cost, duration, is_switch in zip(costs, seconds, switches, strict=True)
    ]


def expected_cost(used: Expected, price: PriceConfig | None) -> float | None:
    """Returns the expected cost in USD; None = the price is unknown."""
    if price is None:
        return None
    return expected_usd(used, price)
