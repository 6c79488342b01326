"""Metrics of feedback: weights, rewards, and unusable declarations."""

from dataclasses import replace
from math import nan

import pytest

from upturn.config import GatewayConfig, MetricConfig, declared_metrics, parse_config, taught_metrics
from upturn.errors import ConfigError


def test_metrics_without_weights_teach_by_the_first() -> None:
    minutes, stars = MetricConfig(name="minutes"), MetricConfig(name="stars", low=1.0, high=5.0)
    assert [metric.weight for metric in declared_metrics((minutes, stars))] == [1.0, 0.0]
    assert [metric.name for metric in declared_metrics(())] == ["success", "thumbs"]
    assert [metric.name for metric in taught_metrics(())] == ["success"]
    lower = replace(stars, direction="lower")
    assert [stars.reward(2.0), lower.reward(2.0), stars.reward(5.5), stars.reward(nan)] == [0.25, 0.75, None, None]


def test_unusable_metrics_are_refused_together() -> None:
    with pytest.raises(ConfigError, match=r"low must be below high, got 1\.0 and 1\.0"):
        MetricConfig(name="stars", low=1.0)
    silent = MetricConfig(name="minutes", weight=0.0)
    with pytest.raises(
        ConfigError, match=r"(?s)metrics name 'minutes' twice.*is the first, 'minutes', but its weight"
    ):
        GatewayConfig(metrics=(silent, silent))


def test_a_section_with_more_problems_than_can_be_left_out_is_reported() -> None:
    rules = [{"text": "("}, {"family": "x", "text": "["}, {}]
    metrics = [{"name": "m", "low": 3.0}, {"name": "m", "level": "day"}, {"name": "k", "low": 9.0}]
    raw = {
        "agents": [{"name": "a", "kind": "callable", "import_path": "m:f"}],
        "gateway": {"clusters": -1, "families": rules, "metrics": metrics, "port": -5},
    }
    with pytest.raises(ConfigError) as caught:
        parse_config(raw)
    text = "\n".join(caught.value.problems)
    for part in ("gateway.clusters", "gateway.families", "gateway.metrics", "gateway.port"):
        assert part in text
