"""Two plots: learning curves in errands, and the gain of few examples with a true and a random reward."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.algorithms.errands_comparison import AFTER, ErrandsRun, ErrandsRuns
from benchmarks.algorithms.rft_comparison import RftResults
from upturn.report import canvas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 9.6
_STYLES = ("-", "--", "-.", ":")
_LABELS = {"dpo_rounds": "online-dpo"}
"""Names of algorithms as the commands have them, where the figures' names differ."""
_TITLES = {"": "alone", AFTER: "after a world model"}


def save_plots(runs: ErrandsRuns, rft: RftResults | None, folder: Path) -> list[Path]:
    """Writes ``algorithms-errands.png`` and ``algorithms-examples.png``, where measured; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with canvas.style():
        if runs:
            paths.append(folder / "algorithms-errands.png")
            canvas.png(_plot_errands(runs), paths[-1])
        if rft is not None:
            paths.append(folder / "algorithms-examples.png")
            canvas.png(_plot_examples(rft), paths[-1])
    return paths


def _plot_errands(runs: ErrandsRuns) -> "Figure":
    """A panel without and one with a world model; lines are means, bands are the range of the seeds."""
    figure = canvas.new_figure(_WIDTH, 4.8, gap=0.06)
    panels = figure.subplots(1, 2, sharey=True, squeeze=False)[0]
    algorithms = [name for name in runs if not name.endswith(AFTER)]
    for axes, (suffix, title) in zip(panels, _TITLES.items(), strict=True):
        for index, name in enumerate(algorithms):
            _plot_curve(
                axes, runs[f"{name}{suffix}"], index, label=canvas.label(_LABELS.get(name, name.replace("_", " ")))
            )
        canvas.percent_axis(axes, "y")
        axes.set_title(title, pad=10)
        axes.set_xlabel("tokens sampled, the world model's included")
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panels[0].set_ylabel("success")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9.5, loc="outside lower center", ncols=len(algorithms))
    return figure


def _plot_curve(axes: "Axes", seeds: "Sequence[ErrandsRun]", index: int, *, label: str) -> None:
    """From the first sampled tokens to the end of the shortest seed, with a marker at each evaluation."""
    end = min(run.curve[-1][0] for run in seeds)
    grid = np.unique([tokens for run in seeds for tokens, _ in run.curve if tokens <= end])
    rows = [np.interp(grid, *np.transpose(run.curve)) for run in seeds]
    colour = canvas.SERIES[index % len(canvas.SERIES)]
    axes.fill_between(grid, np.min(rows, axis=0), np.max(rows, axis=0), color=colour, alpha=0.15, linewidth=0)
    axes.plot(
        grid,
        np.mean(rows, axis=0),
        color=colour,
        linewidth=2.0,
        linestyle=_STYLES[index % len(_STYLES)],
        marker=canvas.MARKERS[index % len(canvas.MARKERS)],
        markersize=4,
        label=label,
    )


def _plot_examples(rft: RftResults) -> "Figure":
    """Gain in success by number of examples; whiskers are 95 % intervals over seeds and tasks."""
    figure = canvas.new_figure(_WIDTH * 0.6, 4.4)
    axes = figure.subplots()
    for index, (reward, sizes) in enumerate(rft.after.items()):
        colour = (canvas.AFTER, canvas.BEFORE)[index % 2]
        positions = [position + 0.08 * index for position in range(len(sizes))]
        gains = [rft.gain(reward, size) for size in sizes]
        for position, gain in zip(positions, gains, strict=True):
            axes.plot([position, position], [gain.low, gain.high], color=colour, linewidth=1.6)
        axes.plot(
            positions,
            [gain.mean for gain in gains],
            color=colour,
            linewidth=2.0,
            linestyle=_STYLES[index],
            marker=canvas.MARKERS[index],
            label=f"{reward} reward",
        )
    axes.axhline(0.0, color=canvas.MUTED, linewidth=1.0, linestyle=":")
    axes.set_xticks(range(len(rft.after["true"])), [str(size) for size in rft.after["true"]])
    axes.set_xlabel("examples")
    axes.set_ylabel("gain in success over before")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f} points")
    axes.legend(frameon=False, fontsize=9.5)
    return figure
