"""Two plots: agreement of each estimator with the truth, and learning curves with each estimator."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.credit.mdp import Floats
from benchmarks.credit.measurements import PartResults, TrainingRun
from upturn.interval import bootstrap_mean
from upturn.report import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"key_door": "key-door world (exact truth)", "errands": "errands, level 3 (measured truth)"}
_WIDTH = 9.6
_FIRST_SHOWN = 200
"""Tokens at which the logarithmic axis of the curves starts."""


def save_plots(parts: Sequence[PartResults], folder: Path) -> list[Path]:
    """Writes ``credit-agreement.png`` and ``credit-learning.png``; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "credit-agreement.png", folder / "credit-learning.png"]
    with canvas.style():
        canvas.png(_plot_agreement(parts), paths[0])
        canvas.png(_plot_learning(parts), paths[1])
    return paths


def _plot_agreement(parts: Sequence[PartResults]) -> "Figure":
    """One row per estimator, one panel per part; whiskers are 95 % intervals over seeds."""
    names = list(parts[0].agreements)
    figure = canvas.new_figure(_WIDTH, 1.4 + 0.42 * len(names), gap=0.06)
    panels = figure.subplots(1, len(parts), sharey=True, squeeze=False)[0]
    for axes, part in zip(panels, parts, strict=True):
        for row, name in enumerate(names):
            mean = bootstrap_mean([agreement.correlation for agreement in part.agreements[name]], seed=0)
            axes.barh(row, mean.mean, height=0.62, color=canvas.SERIES[row % len(canvas.SERIES)], zorder=2)
            axes.plot([mean.low, mean.high], [row, row], color=canvas.INK, linewidth=1.6, zorder=3)
            axes.text(max(mean.high, 0) + 0.02, row, f"{mean.mean:.2f}", va="center", fontsize=9.5)
        if part.ceilings:
            ceiling = float(np.mean([ceiling.ceiling for ceiling in part.ceilings]))
            axes.axvline(ceiling, color=canvas.MUTED, linewidth=1.4, linestyle="--")
            axes.text(ceiling - 0.02, -0.75, "noise ceiling", ha="right", fontsize=9.5, color=canvas.MUTED)
        axes.set_title(TITLES[part.name], pad=12)
        axes.set_xlim(min(axes.get_xlim()[0], 0), 1.0)
        axes.set_xlabel("rank correlation with the true change of value")
        axes.grid(visible=False, axis="y")
    panels[0].set_yticks(range(len(names)), [_label(name) for name in names], color=canvas.INK)
    panels[0].set_ylim(len(names) - 0.4, -1.0)
    return figure


def _plot_learning(parts: Sequence[PartResults]) -> "Figure":
    """Median success by sampled tokens; bands are the middle half of the seeds."""
    figure = canvas.new_figure(_WIDTH, 4.8, gap=0.06)
    panels = figure.subplots(1, len(parts), squeeze=False)[0]
    for axes, part in zip(panels, parts, strict=True):
        end = max(run.curve[-1][0] for runs in part.runs.values() for run in runs)
        for index, (name, runs) in enumerate(part.runs.items()):
            colour, style = canvas.SERIES[index % len(canvas.SERIES)], ("-", "--", "-.", ":")[index % 4]
            tokens, medians = _plot_band(axes, runs, np.geomspace(_FIRST_SHOWN, end, 200), colour)
            axes.plot(tokens, medians, color=colour, linewidth=2.0, linestyle=style, label=_label(name))
        axes.axhline(0.8, color=canvas.MUTED, linewidth=1.0, linestyle=":")
        canvas.percent_axis(axes, "y")
        axes.set_title(TITLES[part.name], pad=10)
        axes.set_xlabel("tokens sampled, continuations included")
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(lambda *_: "")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panels[0].set_ylabel("success")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9.5, loc="outside lower center", ncols=4)
    return figure


def _label(name: str) -> str:
    return canvas.label(name.replace("_outcome", " + outcome").replace("_", " "))


def _plot_band(axes: "Axes", runs: Sequence[TrainingRun], grid: Floats, colour: str) -> tuple[Floats, Floats]:
    """Draws the band; returns tokens and medians. A curve keeps its last value after its end."""
    grid = grid[grid <= max(run.curve[-1][0] for run in runs)]
    low, median, high = np.quantile(
        [np.interp(grid, *np.transpose(run.curve)) for run in runs], [0.25, 0.5, 0.75], axis=0
    )
    axes.fill_between(grid, low, high, color=colour, alpha=0.15, linewidth=0)
    return grid, median
