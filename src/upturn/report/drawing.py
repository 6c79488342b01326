"""The matplotlib figures of a report. Call them within ``canvas.style()``.

``width``: of the figure in inches, ``canvas.WIDE`` or ``canvas.NARROW``.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from upturn.report import canvas
from upturn.report.content import Canary, Change, Estimate, LearningCurve, Measurement, Routing, RoutingEvent
from upturn.report.number import number, percent, rounded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_LARGE = 13
"""Number of adjacent bars whose figures fit above them at full size, in a wide figure."""
_SMALLEST = 0.8
"""Share of the full size below which figures above bars are upright."""
_MAX_TITLE = 44
"""Characters of a title in a narrow figure."""


def levels(stages: Sequence[Measurement], width: float = canvas.WIDE) -> "Figure":
    """Success overall and by level, as groups of one bar per stage."""
    names = list(dict.fromkeys(["all levels", *(item.name for stage in stages for item in stage.levels)]))
    figure = canvas.new_figure(width, 3.9)
    axes = figure.subplots()
    bar = 0.8 / len(stages)
    scale = min(1.0, _MAX_LARGE * width / canvas.WIDE / (len(names) * len(stages)))
    size, rotation = (9.5 * scale, 0) if scale >= _SMALLEST else (9.0, 90)
    for index, stage in enumerate(stages):
        success = {item.name: item.success for item in stage.levels} | {"all levels": stage.overall}
        for group, name in enumerate(names):
            if name not in success:
                continue
            position = group + (index - (len(stages) - 1) / 2) * bar
            estimate = success[name]
            axes.bar(position, estimate.value, bar * 0.88, color=_stage_colour(index, len(stages)), zorder=2)
            top = _whisker(axes, position, estimate)
            share = _short(estimate.value)
            axes.text(position, top + 0.02, share, ha="center", va="bottom", fontsize=size, rotation=rotation)
    axes.set_xticks(range(len(names)), [canvas.label(name, 18) for name in names], color=canvas.INK)
    axes.tick_params(axis="x", labelsize=11 if width == canvas.WIDE else 9.5)
    axes.grid(visible=False, axis="x")
    canvas.percent_axis(axes, "y")
    axes.set_ylim(0, 1.3 if rotation else 1.12)
    axes.set_ylabel("held-out tasks solved")
    _stage_legend(axes, stages, figure=None if width == canvas.WIDE else figure)
    return figure


def families(stages: Sequence[Measurement], width: float = canvas.WIDE) -> "Figure":
    """Success by family, grouped by level: one row per family, one marker with whiskers per stage."""
    levels_by_name = {item.name: item.level or 0 for stage in stages for item in stage.families}
    order = dict(sorted(levels_by_name.items(), key=lambda item: item[1]))
    figure = canvas.new_figure(width, 1.1 + 0.46 * len(order))
    axes = figure.subplots()
    for row, name in enumerate(order):
        estimates = [
            (index, item.success)
            for index, stage in enumerate(stages)
            for item in stage.families
            if item.name == name
        ]
        for index, estimate in estimates:
            position = row + (index - (len(stages) - 1) / 2) * 0.24
            colour, marker = _stage_colour(index, len(stages)), canvas.MARKERS[index % len(canvas.MARKERS)]
            if estimate.low is not None and estimate.high is not None:
                axes.plot([estimate.low, estimate.high], [position] * 2, color=colour, linewidth=1.8, zorder=2)
            axes.plot(estimate.value, position, marker, color=colour, markersize=6.5, zorder=3)
        axes.text(1.04, row, _ends(estimates), va="center", fontsize=9.5, color=canvas.INK)
    axes.set_yticks(
        range(len(order)),
        [canvas.label(name, 36 if width == canvas.WIDE else 20) for name in order],
        color=canvas.INK,
    )
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    canvas.percent_axis(axes, "x", ticks=5 if width == canvas.WIDE else 3)
    _level_lines(axes, order)
    _stage_legend(axes, stages, figure=None if width == canvas.WIDE else figure, has_markers=True)
    return figure


def curve(learning: LearningCurve, width: float = canvas.WIDE) -> "Figure":
    """Mean training reward above, success in unseen worlds below, over the iterations."""
    rewards = [(point.iteration, point.reward) for point in learning.points if point.reward is not None]
    unseen = [(point.iteration, point.unseen) for point in learning.points if point.unseen is not None]
    panels = [panel for panel in (rewards, unseen) if panel]
    figure = canvas.new_figure(width, 0.8 + 2.2 * max(len(panels), 1), gap=0.08)
    grid = figure.subplots(max(len(panels), 1), 1, sharex=True, squeeze=False)[:, 0]
    if rewards:
        _reward_panel(grid[0], rewards)
        grid[0].set_title(_title("Mean reward on training tasks (bold: mean of the last five)", width), pad=10)
    if unseen:
        _unseen_panel(grid[-1], unseen)
        grid[-1].set_title(_title("Success on training templates in unseen worlds", width), pad=10)
    canvas.count_axis(grid[-1])
    grid[-1].set_xlabel("iteration")
    return figure


def _title(text: str, width: float) -> str:
    return text if width == canvas.WIDE else textwrap.fill(text, _MAX_TITLE)


def _reward_panel(axes: "Axes", rewards: Sequence[tuple[int, float]]) -> None:
    x = [iteration for iteration, _ in rewards]
    y = [reward for _, reward in rewards]
    axes.plot(x, y, color=canvas.MIDDLE, linewidth=1.4, alpha=0.75)
    smooth = _moving_mean(y, 5)
    axes.plot(x, smooth, color=canvas.AFTER, linewidth=2.4)
    canvas.end_label(axes, x[-1], smooth[-1], number(round(smooth[-1], 3)))


def _unseen_panel(axes: "Axes", unseen: Sequence[tuple[int, Estimate]]) -> None:
    x = [iteration for iteration, _ in unseen]
    axes.plot(x, [estimate.value for _, estimate in unseen], color=canvas.GOOD, linewidth=1.4)
    for iteration, estimate in unseen:
        if estimate.low is not None and estimate.high is not None:
            axes.plot([iteration] * 2, [estimate.low, estimate.high], color=canvas.GOOD, linewidth=1.6)
        axes.plot(iteration, estimate.value, "o", color=canvas.GOOD, markersize=6.5)
    canvas.percent_axis(axes, "y")
    lowest = min(estimate.low if estimate.low is not None else estimate.value for _, estimate in unseen)
    axes.set_ylim(math.floor(lowest * 4) / 4 - 0.02, 1.02)
    canvas.end_label(axes, x[-1], unseen[-1][1].value, percent(unseen[-1][1].value))


def routing(shares: Routing, width: float = canvas.WIDE) -> "Figure":
    """Stacked bands of the versions' shares, with a line at each change of the versions in service."""
    versions = list(dict.fromkeys(share.agent_version for point in shares.points for share in point.shares))
    x = [point.task for point in shares.points]
    stacks = [_shares_of(shares, version) for version in versions]
    is_wide = width == canvas.WIDE
    figure = canvas.new_figure(width, 4.4 if is_wide else 4.2 + 0.2 * len(versions))
    axes = figure.subplots()
    colours = [canvas.SERIES[index % len(canvas.SERIES)] for index in range(len(versions))]
    axes.stackplot(x, *stacks, colors=colours, alpha=0.85, linewidth=0.6, edgecolor=canvas.PAPER, baseline="zero")
    canvas.percent_axis(axes, "y")
    axes.set_ylim(0, 1)
    axes.set_xlim(x[0], max(x[-1], x[0] + 1))
    canvas.count_axis(axes, max_steps=8 if is_wide else 4)
    axes.set_xlabel("tasks routed")
    axes.set_ylabel(canvas.label(shares.measure))
    if is_wide:
        _band_labels(axes, versions, stacks, colours)
    else:
        _band_legend(axes, versions, stacks, colours)
    for index, event in enumerate(shares.events):
        _event_line(axes, event, index % 3 if is_wide else len(shares.events) - 1 - index)
    return figure


def canary(path: Canary, width: float = canvas.WIDE) -> "Figure":
    """Evidence that the candidate is better, worse, and safe where that is tested, over the tasks it has served."""
    evidence = path.release.evidence
    figure = canvas.new_figure(width, 3.6)
    axes = figure.subplots()
    x = [step.candidate_tasks for step in evidence]
    better = [step.log_e_better / math.log(10) for step in evidence]
    worse = [step.log_e_worse / math.log(10) for step in evidence]
    safe = [step.log_e_safe / math.log(10) for step in evidence] if evidence[-1].log_e_safe > 0 else [0.0]
    limit = math.log10(path.threshold)
    axes.axhline(limit, color=canvas.INK, linewidth=1.2, linestyle=(0, (5, 3)))
    axes.plot(x, better, color=canvas.GOOD, linewidth=2.4)
    axes.plot(x, worse, color=canvas.BAD, linewidth=2.4, linestyle=(0, (2, 1)))
    low, high = min(*better, *worse, *safe, 0.0), max(*better, *worse, limit)
    gap = high - low
    if len(safe) > 1:
        axes.plot(x, safe, color=canvas.MUTED, linewidth=1.6)
        axes.text(x[-1], safe[-1] + 0.03 * gap, "safe", va="bottom", ha="right", fontsize=9.5, color=canvas.MUTED)
    axes.set_ylim(low - 0.08 * gap, high + 0.18 * gap)
    axes.set_xlim(0, max(x[-1], 1) * 1.01)
    axes.text(0.005 * x[-1], limit + 0.02 * gap, f"act at {number(path.threshold)}", va="bottom", fontsize=9.5)
    _end_pair(axes, x[-1], (better[-1], worse[-1]), gap)
    _stage_lines(axes, path)
    _power_axis(axes)
    canvas.count_axis(axes)
    axes.set_xlabel("tasks served by the candidate")
    axes.set_ylabel("evidence (e-value)")
    return figure


def changes(items: Sequence[Change], width: float = canvas.WIDE) -> "Figure":
    """One small panel per quantity: before and after, on the quantity's scale."""
    columns = min(3 if width == canvas.WIDE else 1, len(items))
    rows = math.ceil(len(items) / columns)
    figure = canvas.new_figure(width, 0.3 + 1.45 * rows, gap=0.1)
    grid = figure.subplots(rows, columns, squeeze=False)
    flat = [axes for line in grid for axes in line]
    for axes in flat[len(items) :]:
        axes.set_axis_off()
    for axes, item in zip(flat, items, strict=False):
        _change_panel(axes, item)
    return figure


def _change_panel(axes: "Axes", item: Change) -> None:
    ends = (("before", item.before, canvas.BEFORE), ("after", item.after, canvas.AFTER))
    top = max([value for _, end, _ in ends if end is not None for value in (end.value, end.high or 0.0)] + [1e-9])
    if item.kind == "reward" and top <= 1:
        top = 1.0  # all panels of reward components have the same scale
    low = min([value for _, end, _ in ends if end is not None for value in (end.value, end.low or 0.0)] + [0.0])
    for position, (_, end, colour) in enumerate(ends):
        if end is None:
            axes.text(
                0.02 * top, position, "missing", va="center", fontsize=9.5, color=canvas.MUTED, style="italic"
            )
            continue
        axes.barh(position, end.value, 0.7, color=colour, zorder=2)
        edge = max(end.value, 0.0)
        if end.low is not None and end.high is not None:
            axes.plot([end.low, end.high], [position] * 2, color=canvas.INK, linewidth=1.3, zorder=3)
            edge = max(edge, end.high)
        axes.text(edge + 0.03 * top, position, number(rounded(end.value)), va="center", fontsize=9.5)
    axes.set_yticks([0, 1], ["before", "after"], color=canvas.INK)
    axes.set_ylim(1.6, -0.6)
    axes.set_xlim(low * 1.05, top * 1.3)
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    unit = f" ({item.unit})" if item.unit else ""
    kind = "cost: " if item.kind == "cost" else ""
    axes.set_title(canvas.label(f"{kind}{item.name}{unit}"), fontsize=10.5)


def _stage_colour(index: int, count: int) -> str:
    if index == count - 1:
        return canvas.AFTER
    return canvas.BEFORE if index == 0 else canvas.MIDDLE


def _stage_legend(
    axes: "Axes", stages: Sequence[Measurement], *, figure: "Figure | None", has_markers: bool = False
) -> None:
    """``figure``: a narrow one, above whose axes the legend does not fit; None = it is wide."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=canvas.MARKERS[index % len(canvas.MARKERS)] if has_markers else "s",
            markersize=8,
            color=_stage_colour(index, len(stages)),
            label=canvas.label(stage.stage),
        )
        for index, stage in enumerate(stages)
    ]
    if figure is None:
        axes.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=len(handles),
            frameon=False,
            handletextpad=0.2,
        )
    else:
        figure.legend(
            handles=handles, loc="outside upper left", ncols=len(handles), frameon=False, handletextpad=0.2
        )


def _whisker(axes: "Axes", position: float, estimate: Estimate) -> float:
    """Draws the interval; returns the height above which a label fits."""
    if estimate.low is None or estimate.high is None:
        return estimate.value
    axes.plot([position] * 2, [estimate.low, estimate.high], color=canvas.INK, linewidth=1.2, zorder=3)
    return max(estimate.high, estimate.value)


def _short(share: float) -> str:
    return percent(share).replace("\u00a0", " ")


def _ends(estimates: Sequence[tuple[int, Estimate]]) -> str:
    first, last = _short(estimates[0][1].value), _short(estimates[-1][1].value)
    return first if len(estimates) == 1 else f"{first} → {last}"


def _level_lines(axes: "Axes", levels_by_name: Mapping[str, int]) -> None:
    """Lines between the families' rows, darker between two levels."""
    for row, (level, following) in enumerate(pairwise(levels_by_name.values()), start=1):
        axes.axhline(row - 0.5, color=canvas.STRONG_LINE if level != following else canvas.GRID, linewidth=1.0)


def _moving_mean(values: Sequence[float], window: int) -> list[float]:
    return [fmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)]


def _shares_of(shares: Routing, version: str) -> list[float]:
    return [
        next((share.share for share in point.shares if share.agent_version == version), 0.0)
        for point in shares.points
    ]


def _band_labels(
    axes: "Axes", versions: Sequence[str], stacks: Sequence[Sequence[float]], colours: Sequence[str]
) -> None:
    """Labels each band at its right end, pushed apart so that labels do not overlap."""
    tops = list(accumulate(stack[-1] for stack in stacks))
    positions = [top - stack[-1] / 2 for top, stack in zip(tops, stacks, strict=True)]
    gap = 0.075
    for index in range(1, len(positions)):
        positions[index] = max(positions[index], positions[index - 1] + gap)
    overflow = max(0.0, positions[-1] - (1 - gap / 3))
    positions = [position - overflow for position in positions]
    for index in range(len(positions) - 2, -1, -1):
        positions[index] = min(positions[index], positions[index + 1] - gap)
    for position, version, stack, colour in zip(positions, versions, stacks, colours, strict=True):
        for text, offset, ink in (
            ("■", 8, colour),
            (_band_text(version, stack), 22, canvas.INK),
        ):
            axes.annotate(
                text,
                (1.0, position),
                xycoords=("axes fraction", "data"),
                xytext=(offset, 0),
                textcoords="offset points",
                va="center",
                fontsize=9.5,
                color=ink,
            )


def _band_text(version: str, stack: Sequence[float]) -> str:
    return f"{canvas.label(version)}  {_short(stack[-1])}"


def _band_legend(
    axes: "Axes", versions: Sequence[str], stacks: Sequence[Sequence[float]], colours: Sequence[str]
) -> None:
    """Names the bands below the axes, the upper ones first."""
    from matplotlib.patches import Patch

    bands = list(zip(versions, stacks, colours, strict=True))[::-1]
    handles = [Patch(color=colour, label=_band_text(version, stack)) for version, stack, colour in bands]
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0, -0.2), frameon=False, fontsize=9.5, handlelength=1.0
    )


def _event_line(axes: "Axes", event: RoutingEvent, row: int) -> None:
    """A line with its label ``row`` lines above the axes."""
    style = {"promote": "-", "rollback": "-", "start": (0, (4, 2)), "hold": (0, (1, 2)), "other": (0, (1, 2))}
    axes.axvline(event.task, color=canvas.INK, linewidth=1.4, linestyle=style[event.kind])
    axes.annotate(
        canvas.label(event.label),
        (event.task, 1.0),
        xytext=(0, 4 + 13 * row),
        textcoords="offset points",
        ha="center",
        fontsize=9.5,
        annotation_clip=False,
    )


def _end_pair(axes: "Axes", x: float, ends: tuple[float, float], gap: float) -> None:
    """Labels the ends of both curves, apart from each other; the higher curve has the upper label."""
    better, worse = ends
    if abs(better - worse) < 0.09 * gap:
        middle, apart = (better + worse) / 2, 0.05 * gap if better >= worse else -0.05 * gap
        better, worse = middle + apart, middle - apart
    canvas.end_label(axes, x, better, "— better", colour=canvas.GOOD)
    canvas.end_label(axes, x, worse, "--- worse", colour=canvas.BAD)


def _stage_lines(axes: "Axes", path: Canary) -> None:
    """A line at each change of the candidate's share of the traffic, with the share."""
    from_stage = None
    for step in path.release.evidence:
        if step.stage == from_stage:
            continue
        start = 0 if from_stage is None else step.candidate_tasks
        if from_stage is not None:
            axes.axvline(start, color=canvas.LINE, linewidth=1.2)
        axes.annotate(
            f"{path.release.stages[step.stage] * 100:g} % of the traffic",
            (start, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(4, -2),
            textcoords="offset points",
            va="top",
            fontsize=9.5,
            color=canvas.MUTED,
        )
        from_stage = step.stage


def _power_axis(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda power, _: canvas.power_of_ten(round(power))))
