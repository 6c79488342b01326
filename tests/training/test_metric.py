"""Every number on a curve is explained once."""

from upturn.training.curve import CurvePoint
from upturn.training.metric import GROUPS, METRICS, PHASES, UNREPEATED, group_of, metric_of, seconds_of


def test_every_metric_is_named_once_and_explained() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    for metric in METRICS:
        assert metric.group in GROUPS
        assert metric.meaning.endswith(".")
        assert metric.name == metric.name.lower()


def test_exact_names_come_before_beginnings_and_unknown_ones_are_other() -> None:
    cost = metric_of("cost_damage")
    assert cost is not None
    assert (cost.name, cost.group) == ("cost_*", "cost")
    assert metric_of("costs") is None
    assert group_of("costs") == "other"
    assert group_of("score") == "score"


def test_what_is_not_repeated_is_time_and_the_check_that_is_made_anew() -> None:
    timings = {metric.name for metric in METRICS if metric.group == "time"}
    assert timings | {"verify_gap"} == UNREPEATED
    assert set(PHASES) < timings


def test_a_unit_lasts_as_long_as_its_phases() -> None:
    assert seconds_of(CurvePoint(1, 1, {"collect_seconds": 1.5, "update_seconds": 2.0, "loss": 9.0})) == 3.5
    assert seconds_of(CurvePoint(0, 0, {"evaluate_seconds": None})) == 0.0
