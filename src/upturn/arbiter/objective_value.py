"""The objective of logged decisions: reward minus the weighted cost and seconds that they took, and switches.

Estimators need rewards in [0, 1], so values are mapped there and estimates back.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from upturn.arbiter.objective import handicaps
from upturn.arbiter.off_policy import LoggedOutcome, OffPolicyEstimate, Target, self_normalised
from upturn.config import ObjectiveConfig
from upturn.records import Alternative, Decision


class Scale(NamedTuple):
    """The map ``value = lowest + width · scaled`` from [0, 1]."""

    lowest: float
    width: float

    def scaled(self, value: float) -> float:
        """Returns the value in [0, 1]."""
        return min(max((value - self.lowest) / self.width, 0.0), 1.0)

    def value(self, estimate: OffPolicyEstimate) -> OffPolicyEstimate:
        """Returns an estimate of scaled values as one of values; the ``gain`` is a difference."""
        start = 0.0 if estimate.method == "gain" else self.lowest

        def back(scaled: float | None) -> float | None:
            return None if scaled is None else start + self.width * scaled

        error = None if estimate.standard_error is None else self.width * estimate.standard_error
        return replace(
            estimate,
            value=back(estimate.value),
            standard_error=error,
            low=back(estimate.low),
            high=back(estimate.high),
        )


UNIT = Scale(0.0, 1.0)
"""Of rewards, which are in [0, 1] already."""


def with_forecasts(logged: Sequence[LoggedOutcome]) -> list[LoggedOutcome]:
    """Returns the decisions whose alternatives all have a forecast, so that a policy can weigh them."""
    return [outcome for outcome in logged if all(option.forecast for option in eligible(outcome.decision))]


def weighed(logged: Sequence[LoggedOutcome], weights: ObjectiveConfig) -> tuple[list[LoggedOutcome], Scale]:
    """Returns the outcomes with the scaled objective in place of the reward, and its scale.

    Without weights these are the rewards. An unknown cost or duration is the forecast one.
    """
    if weights == ObjectiveConfig():
        return list(logged), UNIT
    burdens = [_burden(outcome, weights) for outcome in logged]
    largest = max(burdens, default=0.0)
    scale = Scale(-largest, 1.0 + largest)
    values = [
        outcome if outcome.reward is None else replace(outcome, reward=scale.scaled(outcome.reward - burden))
        for outcome, burden in zip(logged, burdens, strict=True)
    ]
    return values, scale


def mean_used(
    logged: Sequence[LoggedOutcome], target: Target, kind: Literal["cost", "seconds"]
) -> OffPolicyEstimate:
    """Returns the SNIPS estimate of the target's mean cost in USD, or mean seconds, of a decision with a reward."""
    amounts = [_used(outcome)[0 if kind == "cost" else 1] for outcome in logged]
    scale = Scale(0.0, max(amounts, default=0.0) or 1.0)
    pairs = zip(logged, amounts, strict=True)
    values = [
        outcome if outcome.reward is None else replace(outcome, reward=scale.scaled(amount))
        for outcome, amount in pairs
    ]
    return scale.value(self_normalised(values, target))


def option_handicaps(decision: Decision, options: Sequence[Alternative], weights: ObjectiveConfig) -> list[float]:
    """Returns the handicaps that the weights give to alternatives, by their forecasts; 0 without forecasts."""
    forecasts = [option.forecast for option in options]
    known = [forecast for forecast in forecasts if forecast is not None]
    if len(known) < len(options):
        return [0.0] * len(options)
    switches = [is_switch(decision, option.agent_version) for option in options]
    return handicaps(
        weights, [forecast.cost_usd for forecast in known], [forecast.seconds for forecast in known], switches
    )


def is_switch(decision: Decision, version: str) -> bool:
    """Returns whether the version's agent is another one than that which served the episode before."""
    return decision.current is not None and agent_name(decision.current) != agent_name(version)


def agent_name(version: str) -> str:
    """Returns the agent's name, which is the part of a version's id before the last ``@``."""
    return version.rpartition("@")[0] or version


def eligible(decision: Decision) -> list[Alternative]:
    """Returns the alternatives that could have been chosen."""
    return [option for option in decision.alternatives if option.probability > 0]


def _used(outcome: LoggedOutcome) -> tuple[float, float]:
    """Returns cost in USD and seconds, those of the forecast where they are unknown, and 0 without one."""
    forecast = next(
        (
            option.forecast
            for option in outcome.decision.alternatives
            if option.agent_version == outcome.decision.chosen
        ),
        None,
    )
    cost, seconds = outcome.cost_usd, outcome.seconds
    if forecast is not None:
        cost = forecast.cost_usd if cost is None else cost
        seconds = forecast.seconds if seconds is None else seconds
    return cost or 0.0, seconds or 0.0


def _burden(outcome: LoggedOutcome, weights: ObjectiveConfig) -> float:
    cost, seconds = _used(outcome)
    switch = (weights.switch_weight or 0.0) * is_switch(outcome.decision, outcome.decision.chosen)
    return weights.cost_weight * cost + weights.latency_weight * seconds + switch
