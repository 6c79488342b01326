"""The metrics of feedback: what values mean, which are accepted, and which teach the router."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import fsum
from typing import Annotated, Literal

from pydantic import Field

from upturn.config.settings import NotNegative, Positive, Settings, settings

MetricLevel = Literal["call", "task", "episode"]
MetricName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


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
    metrics = configured or (MetricConfig(name="success"), MetricConfig(name="thumbs", low=-1.0))
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
