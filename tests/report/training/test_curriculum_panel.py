"""The curriculum's panels, with the metrics of a real run."""

from dataclasses import replace

from upturn.report import canvas
from upturn.report.training import TrainingReport
from upturn.report.training.drawing import draw
from upturn.report.training.panel import curriculum_panels, panels, promotions
from upturn.training.runs.curve import CurvePoint


def test_success_mix_and_forgetting_have_pictures_by_level(by_level: TrainingReport) -> None:
    by_name = {panel.name: panel for panel in panels(by_level)}
    assert [line.label for line in by_name["levels"].lines] == ["level 1", "level 2", "level 3"]
    assert [line.metric for line in by_name["mix"].lines] == [f"sampled_level_{level}" for level in (1, 2, 3)]
    shares = [
        sum(value for line in by_name["mix"].lines for units, value in by_level.values(line.metric) if units == 9)
    ]
    assert abs(shares[0] - 1) < 1e-12
    assert "forgotten" not in by_name  # no level was
    assert not any(panel.title.startswith(("Best", "Curriculum", "Drop")) for panel in by_name.values())


def test_forgetting_has_a_panel_only_if_a_level_was_forgotten(by_level: TrainingReport) -> None:
    last = by_level.points[-1]
    fallen = replace(last, metrics={**last.metrics, "drop_level_1": 0.2})
    (panel,) = [
        panel for panel in panels(replace(by_level, points=(*by_level.points, fallen))) if panel.name == "forgotten"
    ]
    assert [line.label for line in panel.lines] == ["level 1", "level 2", "level 3"]


def test_levels_are_marked_where_they_become_the_current_one(by_level: TrainingReport) -> None:
    """Level 1 has 14 of 20 at iteration 14, of three iterations at 15; each level follows 18 iterations later."""
    assert promotions(by_level) == [(16, "level 2"), (34, "level 3"), (52, "all")]
    (panel,) = [panel for panel in panels(by_level) if panel.name == "levels"]
    with canvas.style():
        texts = {text.get_text() for text in draw(panel, by_level).axes[0].texts}
    assert {"level 2", "level 3", "all", "kept"} <= texts


def test_a_run_without_a_curriculum_has_no_curriculum_panels(finished: TrainingReport) -> None:
    assert curriculum_panels(finished.metrics) == []
    assert promotions(finished) == []


def test_a_metric_that_only_starts_like_a_level_has_its_own_panel(finished: TrainingReport) -> None:
    points = tuple(CurvePoint(unit, 0, {"sampled_level_of_noise": float(unit)}) for unit in range(3))
    assert [panel.name for panel in panels(replace(finished, points=points))] == ["own-0"]
