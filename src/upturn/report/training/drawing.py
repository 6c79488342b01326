"""The figures of a training run's page. Call them within ``canvas.style()``."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from upturn.report import canvas
from upturn.report.number import number
from upturn.report.training.content import TrainingReport, broken_limits
from upturn.report.training.panel import SUCCESS, Line, Panel, promotions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE = (canvas.WIDE, 3.0)
_NARROW = (canvas.NARROW, 2.7)
"""Inches."""
_MAX_POINTS = 400
"""Above this number, each drawn point is the mean of several."""
_MIN_SMOOTHED = 12
"""Number of points from which a bold moving mean is drawn."""
_MAX_LEGEND_CHARACTERS = 48
"""Characters of a legend that fit on one line."""
_TICK_STEPS = (1, 2, 2.5, 5, 10)
"""Steps between two ticks, times a power of ten."""
_SMALLEST = 1e-9
"""What 0 is drawn as on a logarithmic axis."""

Course = Sequence[tuple[float, float]]
"""(units, value), ascending."""


def draw(panel: Panel, report: TrainingReport, *, is_narrow: bool = False) -> "Figure":
    """The panel's picture; ``is_narrow``: also if the panel is wide."""
    size = _WIDE if panel.is_wide and not is_narrow else _NARROW
    figure = canvas.new_figure(*size)
    figure.set_layout_engine("none")  # it takes as long as the drawing
    axes = figure.add_axes(_axes_box(panel, size))
    courses = [(line, thin(report.values(line.metric))) for line in panel.lines]
    if panel.kind == "score":
        _score(axes, report)
    elif panel.kind == "stack":
        _stack(axes, courses)
    else:
        _lines(axes, panel, courses)
    if panel.name == "costs":
        _limits(axes, panel, report)
    if panel.name == SUCCESS:
        _promotions(axes, report)
    _kept_mark(axes, report, is_named=size == _WIDE)  # in a narrow figure a legend may be there
    _axes(axes, panel, report)
    return figure


def _legend_rows(panel: Panel) -> int:
    """Number of rows of the legend above the picture."""
    if len(panel.lines) == 1:
        return 0
    return len(panel.lines) if sum(len(line.label) for line in panel.lines) > _MAX_LEGEND_CHARACTERS else 1


def _axes_box(panel: Panel, size: tuple[float, float]) -> tuple[float, float, float, float]:
    """Left, bottom, width and height of the axes as shares of the figure; ``size``: its width and height."""
    width, height = size
    left, right, below, above = 0.95, 0.65, 0.55, 0.12 + 0.22 * _legend_rows(panel) + 0.18 * panel.is_wide
    return left / width, below / height, 1 - (left + right) / width, 1 - (below + above) / height


def thin(course: Course, max_points: int = _MAX_POINTS) -> Course:
    """At most ``max_points`` points: means of chunks of equal length; the last one may be shorter."""
    if len(course) <= max_points:
        return course
    length = -(-len(course) // max_points)
    parts = [course[start : start + length] for start in range(0, len(course), length)]
    return [
        (sum(units for units, _ in part) / len(part), sum(value for _, value in part) / len(part)) for part in parts
    ]


def smooth(course: Course) -> Course:
    """The moving mean over a twentieth of the run, at least five points."""
    window = max(5, len(course) // 20)
    means, total = [], 0.0
    for index, (units, value) in enumerate(course):
        total += value - (course[index - window][1] if index >= window else 0.0)
        means.append((units, total / min(index + 1, window)))
    return means


def _lines(axes: "Axes", panel: Panel, courses: Sequence[tuple[Line, Course]]) -> None:
    for index, (line, course) in enumerate(courses):
        colour = canvas.SERIES[index % len(canvas.SERIES)]
        shown = [(x, max(y, _SMALLEST)) for x, y in course] if panel.scale == "log" else course
        is_smoothed = panel.kind == "noisy" and len(shown) >= _MIN_SMOOTHED
        if is_smoothed:
            axes.plot(*_columns(shown), color=colour, linewidth=1.0, alpha=0.35)
            shown = smooth(shown)
        marker = "" if len(shown) > _MIN_SMOOTHED else canvas.MARKERS[index % len(canvas.MARKERS)]
        style = "-" if index == 0 else (0, (5, 1 + index))
        axes.plot(
            *_columns(shown),
            color=colour,
            linewidth=2.0,
            linestyle=style,
            marker=marker,
            markersize=4.5,
            label=line.label,
        )
        if len(courses) == 1:
            _label_end(axes, shown)


def _stack(axes: "Axes", courses: Sequence[tuple[Line, Course]]) -> None:
    """Bands of the parts; a part without a value at a point is 0 there."""
    units = sorted({x for _, course in courses for x, _ in course})
    values = [[dict(course).get(x, 0.0) for x in units] for _, course in courses]
    if len(units) < _MIN_SMOOTHED:
        below = [0.0] * len(units)
        for index, (band, (line, _)) in enumerate(zip(values, courses, strict=True)):
            axes.bar(units, band, 0.7, bottom=below, color=canvas.SERIES[index], label=line.label, alpha=0.9)
            below = [low + high for low, high in zip(below, band, strict=True)]
        return
    axes.stackplot(
        units,
        *values,
        colors=canvas.SERIES[: len(values)],
        labels=[line.label for line, _ in courses],
        alpha=0.9,
        linewidth=0.0,
    )


def _score(axes: "Axes", report: TrainingReport) -> None:
    plan = report.description.plan
    for point in report.evaluations:
        value, low, high = (point.metrics.get(name) for name in ("score", "score_low", "score_high"))
        assert value is not None
        is_broken = bool(broken_limits(point, report.description))
        colour = canvas.BAD if is_broken else canvas.GOOD
        if low is not None and high is not None:
            axes.plot([point.units] * 2, [low, high], color=colour, linewidth=1.5)
        axes.plot(point.units, value, "X" if is_broken else "o", color=colour, markersize=6.5, zorder=3)
    course = report.values("score")
    axes.plot(*_columns(course), color=canvas.GOOD, linewidth=1.3)
    if plan.target_score is not None:
        _dashed(axes, plan.target_score, f"target {number(plan.target_score)}")
    _label_end(axes, course)


def _limits(axes: "Axes", panel: Panel, report: TrainingReport) -> None:
    for line in panel.lines:
        limit = report.description.plan.cost_limits.get(line.label)
        if limit is not None:
            _dashed(axes, limit, f"limit of {canvas.label(line.label)}: {number(limit)}")


def _dashed(axes: "Axes", value: float, text: str) -> None:
    axes.axhline(value, color=canvas.INK, linewidth=1.1, linestyle=(0, (5, 3)))
    axes.annotate(
        text,
        (0, value),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        fontsize=9.5,
    )


def _kept_mark(axes: "Axes", report: TrainingReport, *, is_named: bool) -> None:
    kept = report.kept
    if kept is None:
        return
    axes.axvline(kept.units, color=canvas.MUTED, linewidth=1.1, linestyle=(0, (1, 2)), zorder=1)
    if is_named:
        axes.annotate(
            "kept",
            (kept.units, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=9.5,
            color=canvas.MUTED,
            annotation_clip=False,
        )


def _promotions(axes: "Axes", report: TrainingReport) -> None:
    """Vertical lines with text along them, because the legend is above the picture."""
    for units, text in promotions(report):
        axes.axvline(units, color=canvas.MUTED, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            text,
            (units, 0.5),
            xycoords=("data", "axes fraction"),
            xytext=(-3, 0),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="center",
            fontsize=9.5,
            color=canvas.MUTED,
        )


def _axes(axes: "Axes", panel: Panel, report: TrainingReport) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    last = max(point.units for point in report.points)
    first = min(point.units for point in report.points)
    axes.set_xlim(first - 0.02 * max(last - first, 1), last + 0.02 * max(last - first, 1))
    canvas.count_axis(axes)
    axes.set_xlabel(report.description.plan.unit)
    axes.set_ylabel(canvas.label(panel.axis))
    axes.tick_params(labelsize=10)
    if panel.scale == "log":
        _power_axis(axes)
    else:
        if panel.scale == "from zero":
            low, high = axes.get_ylim()
            axes.set_ylim(low if low < -0.06 * high else 0.0, high)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=_TICK_STEPS))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value, 6)))
    rows = _legend_rows(panel)
    if rows:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            borderaxespad=0.1,
            ncols=-(-len(panel.lines) // rows),
            frameon=False,
            fontsize=9.5,
            handlelength=1.8,
            columnspacing=1.2,
        )


def _power_axis(axes: "Axes") -> None:
    """Logarithmic, labelled with powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    axes.yaxis.set_major_locator(LogLocator(numticks=6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: canvas.power_of_ten(round(math.log10(value)))))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _label_end(axes: "Axes", course: Course) -> None:
    x, y = course[-1]
    canvas.end_label(axes, x, y, _short(y, 3), size=9.5)


def _short(value: float, digits: int) -> str:
    """At most this many significant digits, to fit next to a figure."""
    if abs(value) >= 1000:
        return number(float(f"{value:.{digits}g}"))
    return f"{value:.{digits if abs(value) >= 0.001 else 2}g}".replace("-", "−")


def _columns(course: Course) -> tuple[list[float], list[float]]:
    return [x for x, _ in course], [y for _, y in course]
