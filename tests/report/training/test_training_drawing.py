"""Curves are thinned and smoothed by known rules, and drawn from any run without a warning."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from upturn.report import canvas
from upturn.report.training import TrainingReport
from upturn.report.training.drawing import draw, smooth, thin
from upturn.report.training.panel import panels
from upturn.training.runs.curve import CurvePoint


def test_excess_points_are_averaged() -> None:
    course = [(float(x), 2.0 * x) for x in range(7)]
    assert thin(course, 7) == course
    assert thin(course, 3) == [(1.0, 2.0), (4.0, 8.0), (6.0, 12.0)]


@given(st.integers(1, 3000), st.integers(1, 500))
def test_thinning_keeps_bound_and_order(count: int, max_points: int) -> None:
    points = thin([(float(x), 1.0) for x in range(count)], max_points)
    assert 1 <= len(points) <= max_points
    assert [x for x, _ in points] == sorted(x for x, _ in points)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=200))
def test_a_smoothed_point_is_the_mean_of_the_latest_ones(values: list[float]) -> None:
    course = [(float(x), y) for x, y in enumerate(values)]
    window = max(5, len(values) // 20)
    for index, (x, y) in enumerate(smooth(course)):
        latest = values[max(0, index + 1 - window) : index + 1]
        assert x == index
        assert y == pytest.approx(sum(latest) / len(latest), abs=1e-6)


def pictures(report: TrainingReport) -> dict[str, str]:
    drawings = {}
    for panel in panels(report):
        with canvas.style():
            drawings[panel.name] = canvas.svg(draw(panel, report), panel.name)
    return drawings


@pytest.mark.parametrize("count", [2, 3, 14])
def test_few_points_are_enough_and_no_picture_is_empty(finished: TrainingReport, count: int) -> None:
    for svg in pictures(replace(finished, points=finished.points[:count])).values():
        assert ET.fromstring(svg).tag.endswith("svg")
        assert ">iteration<" in svg


def test_target_limits_and_kept_weights_are_marked(finished: TrainingReport) -> None:
    few = replace(finished, points=finished.points[:21])
    drawings = pictures(few)
    assert "target 0.95" in drawings["score"]
    assert "limit of safety: 0.05" in drawings["costs"]
    assert all(">kept<" in drawings[name] for name in ("score", "costs", "reward"))


def test_logarithmic_axes_have_powers_of_ten_and_draw_zero(finished: TrainingReport) -> None:
    points = tuple(CurvePoint(n, n, {"max_logprob_gap": gap}) for n, gap in enumerate((0.0, 1e-6, 1e-4)))
    svg = pictures(replace(finished, points=points))["agreement"]
    assert "10⁻⁶" in svg
    assert "mathdefault" not in svg


def test_a_long_run_is_drawn_with_limited_points(supervised: TrainingReport) -> None:
    points = tuple(CurvePoint(n, n, {"loss": 1 / (n + 1)}) for n in range(30_000))
    (svg,) = pictures(replace(supervised, points=points)).values()
    assert len(svg) < 60_000


def test_narrow_figures_of_wide_panels_cut_no_text(finished: TrainingReport) -> None:
    for panel in (panel for panel in panels(finished) if panel.is_wide):
        with canvas.style():
            figure = draw(panel, finished, is_narrow=True)
            figure.draw_without_rendering()
            drawn = canvas.svg(figure, "a")
        assert figure.get_size_inches()[0] == canvas.NARROW
        for text in figure.findobj(Text):
            if isinstance(text, Text) and f">{text.get_text()}<" in drawn:
                box = text.get_window_extent()
                assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, f"{panel.name}: {text.get_text()}"
        assert ">kept<" not in drawn
