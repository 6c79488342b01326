"""The reward of an episode from its feedback."""

import pytest

from upturn.config import GatewayConfig, MetricConfig, TrafficConfig, TrafficMetrics, traffic_metrics
from upturn.config.settings import parse_settings
from upturn.errors import ConfigError
from upturn.loop.trainers import parse_full_config
from upturn.pool.traffic import Opinions, episode_reward

DEFAULT = traffic_metrics(TrafficConfig(), ())
RESOLVED = MetricConfig(name="resolved", level="episode")
MINUTES = MetricConfig(name="minutes", direction="lower", high=60.0, weight=0.5)
STARS = MetricConfig(name="stars", low=1.0, high=5.0)
DECLARED = (RESOLVED, MINUTES, STARS)


def test_the_metric_that_teaches_the_router_is_the_reward() -> None:
    reward = episode_reward(Opinions({"success": [0.25], "thumbs": [1.0]}), DEFAULT)
    assert (reward.value, reward.by_metric, reward.missing) == (0.25, {"success": 0.25}, "")


def test_thumbs_are_the_reward_where_the_taught_metrics_have_no_value() -> None:
    assert episode_reward(Opinions({"thumbs": [1.0]}), DEFAULT).value == 1.0
    assert episode_reward(Opinions({"thumbs": [-1.0]}), DEFAULT).value == 0.0
    assert episode_reward(Opinions({"thumbs": [0.0]}), DEFAULT).value == 0.5


def test_several_metrics_are_weighted_and_none_may_be_missing() -> None:
    metrics = traffic_metrics(TrafficConfig(), DECLARED)
    assert [metric.name for metric in metrics.joint] == ["resolved", "minutes"]
    both = episode_reward(Opinions({"resolved": [1.0], "minutes": [15.0]}), metrics)
    assert both.value == (1.0 + 0.5 * 0.75) / 1.5
    one = episode_reward(Opinions({"resolved": [1.0], "thumbs": [1.0]}), metrics)
    assert (one.value, one.missing, one.by_metric) == (None, "incomplete", {"resolved": 1.0, "minutes": None})


def test_chosen_metrics_count_with_weight_one_where_they_teach_nothing() -> None:
    metrics = traffic_metrics(TrafficConfig(metrics=("minutes", "stars")), DECLARED)
    assert [metric.weight for metric in metrics.joint] == [0.5, 1.0]
    assert metrics.fallback is None
    reward = episode_reward(Opinions({"minutes": [0.0], "stars": [2.0], "thumbs": [1.0]}), metrics)
    assert reward.value == (0.5 * 1.0 + 1.0 * 0.25) / 1.5
    assert episode_reward(Opinions({"thumbs": [1.0]}), metrics).missing == "unrated"


def test_a_value_about_the_whole_counts_before_values_about_calls() -> None:
    calls = {"success": {"a": [0.0], "b": [1.0, 1.0]}}
    assert episode_reward(Opinions({}, calls), DEFAULT).value == 0.5
    assert episode_reward(Opinions({"success": [1.0]}, calls), DEFAULT).value == 1.0


def test_contradicting_values_are_averaged_in_any_order_and_reported() -> None:
    first = episode_reward(Opinions({"success": [1.0, 0.0, 1.0, 1.0]}), DEFAULT)
    assert (first.value, first.is_contradicted) == (0.75, True)
    assert episode_reward(Opinions({"success": [1.0, 1.0, 1.0, 0.0]}), DEFAULT) == first
    assert not episode_reward(Opinions({"success": [1.0, 1.0]}), DEFAULT).is_contradicted
    two_calls = Opinions({}, {"success": {"a": [0.0], "b": [1.0]}})
    assert not episode_reward(two_calls, DEFAULT).is_contradicted


def test_missing_stays_missing() -> None:
    reward = episode_reward(Opinions(), DEFAULT)
    assert (reward.value, reward.missing) == (None, "unrated")
    outside = episode_reward(Opinions({"success": [7.0]}), DEFAULT)
    assert (outside.value, outside.missing) == (None, "unrated")
    assert episode_reward(Opinions({"x": [1.0]}), TrafficMetrics((), None)).missing == "unrated"


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"bad_below = 0.7 must not be above good_above = 0.5"):
        parse_settings(TrafficConfig, {"bad_below": 0.7})
    with pytest.raises(ConfigError, match="metrics names 'stars' twice"):
        parse_settings(TrafficConfig, {"metrics": ["stars", "stars"]})
    nano = {"name": "nano", "kind": "local_model", "model": "nano"}
    with pytest.raises(
        ConfigError, match=r"traffic\.metrics names 'stars', which is not declared; declared: success"
    ):
        parse_full_config({"agents": [nano], "traffic": {"metrics": ["stars"]}})
    assert parse_full_config({"agents": [nano]}).traffic is None
    assert GatewayConfig().metrics == ()
