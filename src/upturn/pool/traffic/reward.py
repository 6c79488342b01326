"""The reward of an episode from its feedback. Pure.

The rule, in this order:

1. A metric's value about the whole (the episode, or its trajectory) counts before values about single calls.
2. Several values of one subject are averaged as rewards, whenever they came: nobody's opinion is dropped, and the
   order has no effect. Values that differ are reported as contradicting.
3. Without a value about the whole, a metric's reward is the mean over the calls that have one.
4. The reward is the weighted mean of the metrics (``config.TrafficMetrics``), and missing while one of them is. An
   episode without a value of any of them has the reward of the fallback.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Literal, NamedTuple

from upturn.config import MetricConfig, TrafficMetrics, joint_reward

WITHOUT_REWARD: Mapping[str, str] = {
    "unrated": "without feedback that counts",
    "incomplete": "without a value of one of the metrics",
    "broken": "whose last call failed",
    "unanswered": "without an answered call",
}
"""Why an episode has no reward, for people."""
NoReward = Literal["unrated", "incomplete", "broken", "unanswered"]


@dataclass(slots=True)
class Opinions:
    """The feedback on one episode, in any order."""

    whole: dict[str, list[float]] = field(default_factory=dict)
    """By metric: values for the episode or its trajectory."""
    calls: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By metric, then by call: values for the call's decision."""


class EpisodeReward(NamedTuple):
    """What an episode was worth."""

    value: float | None
    """In [0, 1]; None = missing."""
    by_metric: Mapping[str, float | None]
    """The reward of each metric that counts; None = missing."""
    missing: NoReward | Literal[""] = ""
    """Why there is no value; empty = there is."""
    is_contradicted: bool = False
    """True = one subject has different values of one metric."""


def episode_reward(opinions: Opinions, metrics: TrafficMetrics) -> EpisodeReward:
    """Returns the reward by the module's rule; a value outside of its metric's range is no value."""
    is_contradicted = any(_differ(opinions, metric) for metric in _counted(metrics))
    rewards = {metric.name: _metric_reward(opinions, metric) for metric in metrics.joint}
    known = [reward for reward in rewards.values() if reward is not None]
    if rewards and len(known) == len(rewards):
        return EpisodeReward(joint_reward(metrics.joint, known), rewards, is_contradicted=is_contradicted)
    fallback = metrics.fallback
    if not known and fallback is not None:
        reward = _metric_reward(opinions, fallback)
        if reward is not None:
            return EpisodeReward(reward, {fallback.name: reward}, is_contradicted=is_contradicted)
    return EpisodeReward(None, rewards, "incomplete" if known else "unrated", is_contradicted)


def _counted(metrics: TrafficMetrics) -> Sequence[MetricConfig]:
    return metrics.joint if metrics.fallback is None else (*metrics.joint, metrics.fallback)


def _metric_reward(opinions: Opinions, metric: MetricConfig) -> float | None:
    whole = _mean_reward(opinions.whole.get(metric.name, ()), metric)
    if whole is not None:
        return whole
    calls = opinions.calls.get(metric.name, {})
    rewards = [reward for values in calls.values() if (reward := _mean_reward(values, metric)) is not None]
    return fsum(rewards) / len(rewards) if rewards else None


def _mean_reward(values: Sequence[float], metric: MetricConfig) -> float | None:
    rewards = [reward for value in values if (reward := metric.reward(value)) is not None]
    return fsum(rewards) / len(rewards) if rewards else None


def _differ(opinions: Opinions, metric: MetricConfig) -> bool:
    subjects = (opinions.whole.get(metric.name, []), *opinions.calls.get(metric.name, {}).values())
    return any(len(set(values)) > 1 for values in subjects)
