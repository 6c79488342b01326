"""Which pictures a run gets: those that its figures move in, the unknown ones last."""

from dataclasses import replace

import pytest

from upturn.report.training import TrainingReport
from upturn.report.training.panel import panels
from upturn.training.curve import CurvePoint


def names(report: TrainingReport) -> list[str]:
    return [panel.name for panel in panels(report)]


def with_metric(report: TrainingReport, name: str, values: tuple[float, ...]) -> TrainingReport:
    points = tuple(
        replace(point, metrics={**point.metrics, name: value})
        for point, value in zip(report.points, values, strict=False)
    )
    return replace(report, points=points)


def test_a_policy_gradient_run_gets_its_pictures_in_the_page_s_order(finished: TrainingReport) -> None:
    assert names(finished) == [
        "score",
        "reward",
        "costs",
        "loss",
        "gradient",
        "entropy",
        "kl",
        "ratio",
        "clip",
        "agreement",
        "groups",
        "tokens",
        "share",
        "action",
        "trouble",
        "seconds",
        "speed",
        "own-0",
    ]


def test_a_supervised_run_gets_the_ones_it_has_figures_for(supervised: TrainingReport) -> None:
    assert names(supervised) == ["loss", "gradient", "learning-rate", "tokens", "seconds", "speed"]
    (loss,) = [panel for panel in panels(supervised) if panel.name == "loss"]
    assert "should fall" in loss.good
    assert loss.is_wide


@pytest.mark.parametrize("fixture", ["finished", "supervised"])
def test_every_picture_says_what_it_shows_and_what_good_looks_like(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    for panel in panels(request.getfixturevalue(fixture)):
        assert panel.title
        assert panel.axis
        assert panel.good.endswith(".")
        assert all(line.label for line in panel.lines)


def test_what_never_changes_has_no_picture(finished: TrainingReport) -> None:
    assert "fallbacks" not in names(finished)
    moved = with_metric(finished, "fallbacks", (0.0,) * 60 + (1.0,))
    assert "fallbacks" in names(moved)


def test_no_name_of_a_metric_reaches_an_address(finished: TrainingReport) -> None:
    hostile = with_metric(finished, '"><script>', (1.0, 2.0))
    (own,) = [panel for panel in panels(hostile) if panel.title == '"><script>']
    assert own.name.removeprefix("own-").isdigit()
    assert own.good == "A figure of the run's own algorithm."


def test_costs_are_drawn_together_each_with_its_own_line(finished: TrainingReport) -> None:
    (costs,) = [panel for panel in panels(finished) if panel.name == "costs"]
    assert [line.label for line in costs.lines] == ["safety", "error"]


def test_a_run_without_points_has_no_pictures(finished: TrainingReport) -> None:
    assert panels(replace(finished, points=())) == ()
    assert names(replace(finished, points=(CurvePoint(0, 0, {"score": 0.5}),))) == ["score"]
