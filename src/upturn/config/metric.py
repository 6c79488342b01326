"""The metrics of feedback: what values mean, which are accepted, which teach the router, and which are rewards in
training."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import fsum
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from upturn.config.settings import Count, NotNegative, Positive, Settings, Share, settings

MetricLevel = Literal["call", "task", "episode"]
MetricName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
THUMBS = "thumbs"
"""Metric of a thumbs-up/down rating: above 0 = good, below 0 = bad."""


@settings
class MetricConfig(Settings):
    """A quantity that feedback reports; one ``[[gateway.metrics]]`` table per metric. The first one is the primary
    metric: that of feedback that names none, and the one that canaries count."""

    name: MetricName
    """Name of the metric in feedback."""
    level: MetricLevel | None = None
    """What a value is about: a model call, a whole task or an episode. Feedback on the decision of any call of an
    episode then counts for the episode. Unset = what the feedback names."""
    direction: Literal["higher", "lower"] = "higher"
    """Which values are better."""
    low: float = 0.0
    """Smallest value."""
    high: float = 1.0
    """Largest value."""
    delay_hours: Positive = 24.0
    """Time after a decision from which on a value that has not arrived counts as missing. A later one still
    teaches."""
    weight: NotNegative | None = None
    """Weight in the reward that the router learns. 0 = values are stored and teach nothing. Unset = 1 for the first
    metric, 0 for the others."""

    def problems(self) -> Iterator[str | None]:
        """Yields an empty range."""
        is_empty = self.low >= self.high
        yield f"low must be below high, got {self.low!r} and {self.high!r}" if is_empty else None

    def reward(self, value: float) -> float | None:
        """Returns the reward of a value, in [0, 1], 1 for the best; None = outside of the range."""
        if not self.low <= value <= self.high:
            return None
        share = (value - self.low) / (self.high - self.low)
        return share if self.direction == "higher" else 1.0 - share


def declared_metrics(configured: Sequence[MetricConfig]) -> tuple[MetricConfig, ...]:
    """Returns the metrics with their weights, the primary one first.

    Without configured ones these are ``success`` in [0, 1], and ``thumbs`` in [-1, 1] without weight.
    """
    metrics = configured or (MetricConfig(name="success"), MetricConfig(name=THUMBS, low=-1.0))
    return tuple(
        replace(metric, weight=float(number == 0)) if metric.weight is None else metric
        for number, metric in enumerate(metrics)
    )


def taught_metrics(configured: Sequence[MetricConfig]) -> tuple[MetricConfig, ...]:
    """Returns the declared metrics that teach the router: those with a weight above 0."""
    return tuple(metric for metric in declared_metrics(configured) if metric.weight)


def joint_reward(metrics: Sequence[MetricConfig], rewards: Sequence[float]) -> float:
    """Returns the weighted mean of one reward per metric; ``metrics`` are those of ``taught_metrics``."""
    weights = [metric.weight or 0.0 for metric in metrics]
    weighted = fsum(weight * reward for weight, reward in zip(weights, rewards, strict=True))
    return min(1.0, weighted / fsum(weights))


@settings
class TrafficConfig(Settings):
    """Training on the gateway's traffic: with this section ``sft``, ``kto``, ``dpo`` and ``offline`` train on
    sealed episodes of model calls in place of the environment's trajectories. An episode's reward is the score of
    an evaluation that is stored for it, else its feedback (docs/traffic.md)."""

    metrics: tuple[MetricName, ...] = ()
    """Metrics whose weighted mean is the reward; an episode needs a value of each. The weights are those of
    ``[[gateway.metrics]]``, with 1 in place of 0. Empty = the metrics that teach the router; an episode without a
    value of these has the reward of its ``thumbs``."""
    good_above: Share = 0.5
    """A reward above it is good: ``sft`` imitates such episodes, ``kto`` makes them more likely."""
    bad_below: Share = 0.5
    """A reward below it is bad: ``kto`` makes such episodes less likely. Rewards between the two are undecided."""
    families: tuple[str, ...] = ()
    """Families of the episodes. Empty = any."""
    limit: Count = 10_000
    """Largest number of episodes, the latest ones, so that memory is limited."""
    evaluate: bool = True
    """Whether the version is evaluated on the environment's held-out tasks, before and after training. False = not
    at all: where no environment has tasks like the traffic's, a canary on live feedback decides what a version is
    worth."""

    def problems(self) -> Iterator[str | None]:
        """Yields thresholds that cross, and metrics named twice."""
        if self.bad_below > self.good_above:
            yield f"bad_below = {self.bad_below!r} must not be above good_above = {self.good_above!r}"
        twice = sorted({name for name in self.metrics if self.metrics.count(name) > 1})
        yield f"metrics names {', '.join(map(repr, twice))} twice; name each metric once" if twice else None


class TrafficMetrics(NamedTuple):
    """The metrics that an episode's reward is computed from, with their weights."""

    joint: tuple[MetricConfig, ...]
    """The reward is their weighted mean."""
    fallback: MetricConfig | None
    """For an episode without a value of any of ``joint``; None = it has no reward."""


def traffic_metrics(traffic: TrafficConfig, configured: Sequence[MetricConfig]) -> TrafficMetrics:
    """Returns the metrics of ``traffic``, whose names are among the declared ones."""
    declared = {metric.name: metric for metric in declared_metrics(configured)}
    if traffic.metrics:
        chosen = (declared[name] for name in traffic.metrics)
        return TrafficMetrics(
            tuple(metric if metric.weight else replace(metric, weight=1.0) for metric in chosen), None
        )
    joint = taught_metrics(configured)
    thumbs = declared.get(THUMBS, MetricConfig(name=THUMBS, low=-1.0))
    return TrafficMetrics(joint, None if thumbs in joint else thumbs)
