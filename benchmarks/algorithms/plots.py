"""Two pictures: how fast each way learns in errands, and what few examples give beside a random reward."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.algorithms.errands_comparison import AFTER, Course, Courses
from benchmarks.algorithms.rft_comparison import RftFindings
from upturn.report import canvas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 9.6
_STYLES = ("-", "--", "-.", ":")
_TITLES = {"": "alone", AFTER: "after a world model"}


def save_pictures(courses: Courses, rft: RftFindings | None, folder: Path) -> list[Path]:
    """Writes ``algorithms-errands.png`` and ``algorithms-examples.png``, where measured; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with canvas.style():
        if courses:
            paths.append(folder / "algorithms-errands.png")
            canvas.png(_errands(courses), paths[-1])
        if rft is not None:
            paths.append(folder / "algorithms-examples.png")
            canvas.png(_examples(rft), paths[-1])
    return paths


def _errands(courses: Courses) -> "Figure":
    """A panel without and one with a world model; lines are means, bands reach over the seeds."""
    figure = canvas.new_figure(_WIDTH, 4.8, gap=0.06)
    panels = figure.subplots(1, 2, sharey=True, squeeze=False)[0]
    ways = [name for name in courses if not name.endswith(AFTER)]
    for axes, (suffix, title) in zip(panels, _TITLES.items(), strict=True):
        for place, way in enumerate(ways):
            _course(axes, courses[f"{way}{suffix}"], place, label=canvas.label(way.replace("_", " ")))
        canvas.percent_axis(axes, "y")
        axes.set_title(title, pad=10)
        axes.set_xlabel("tokens sampled, the world model's included")
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panels[0].set_ylabel("success")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9.5, loc="outside lower center", ncols=len(ways))
    return figure


def _course(axes: "Axes", seeds: "Sequence[Course]", place: int, *, label: str) -> None:
    """From the first tokens sampled to the end of the shortest seed; markers stand where there was an exam."""
    end = min(each.curve[-1][0] for each in seeds)
    grid = np.unique([tokens for each in seeds for tokens, _ in each.curve if tokens <= end])
    rows = [
        np.interp(grid, [tokens for tokens, _ in each.curve], [success for _, success in each.curve])
        for each in seeds
    ]
    colour = canvas.SERIES[place % len(canvas.SERIES)]
    axes.fill_between(grid, np.min(rows, axis=0), np.max(rows, axis=0), color=colour, alpha=0.15, linewidth=0)
    axes.plot(
        grid,
        np.mean(rows, axis=0),
        color=colour,
        linewidth=2.0,
        linestyle=_STYLES[place % len(_STYLES)],
        marker=canvas.MARKERS[place % len(canvas.MARKERS)],
        markersize=4,
        label=label,
    )


def _examples(rft: RftFindings) -> "Figure":
    """Gain over before by number of examples; whiskers are 95 % intervals over seeds and tasks."""
    figure = canvas.new_figure(_WIDTH * 0.6, 4.4)
    axes = figure.subplots()
    for place, (reward, sizes) in enumerate(rft.after.items()):
        colour = (canvas.AFTER, canvas.BEFORE)[place % 2]
        spots = [position + 0.08 * place for position in range(len(sizes))]
        gains = [rft.gain(reward, size) for size in sizes]
        for spot, gain in zip(spots, gains, strict=True):
            axes.plot([spot, spot], [gain.low, gain.high], color=colour, linewidth=1.6)
        axes.plot(
            spots,
            [gain.mean for gain in gains],
            color=colour,
            linewidth=2.0,
            linestyle=_STYLES[place],
            marker=canvas.MARKERS[place],
            label=f"{reward} reward",
        )
    axes.axhline(0.0, color=canvas.MUTED, linewidth=1.0, linestyle=":")
    axes.set_xticks(range(len(rft.after["true"])), [str(size) for size in rft.after["true"]])
    axes.set_xlabel("examples")
    axes.set_ylabel("gain in success over before")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f} points")
    axes.legend(frameon=False, fontsize=9.5)
    return figure
