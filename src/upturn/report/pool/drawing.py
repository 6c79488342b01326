"""The figures of a pool's page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from upturn.report import canvas
from upturn.report.number import percent
from upturn.report.pool.content import GateRow, Group, Period

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 30
"""Rows of a figure; the table has all."""
_MOST_TICKS = {canvas.WIDE: 9, canvas.NARROW: 4}


def groups(rows: Sequence[Group], width: float = canvas.WIDE) -> "Figure":
    """Success with intervals, a row a group; those without a verdict are left out."""
    shown = [row for row in rows if row.success is not None][:MOST_ROWS]
    figure = canvas.new_figure(width, 0.9 + 0.4 * len(shown))
    axes = figure.subplots()
    for position, row in enumerate(shown):
        success = row.success
        assert success is not None
        if success.low is not None and success.high is not None:
            axes.plot([success.low, success.high], [position] * 2, color=canvas.AFTER, linewidth=1.8, zorder=2)
        axes.plot(success.value, position, "o", color=canvas.AFTER, markersize=6.5, zorder=3)
        axes.text(1.04, position, _short(success.value), va="center", fontsize=9.5, color=canvas.INK)
    names = [canvas.label(row.name, 36 if width == canvas.WIDE else 20) for row in shown]
    axes.set_yticks(range(len(shown)), names, color=canvas.INK)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    canvas.percent_axis(axes, "x", ticks=5 if width == canvas.WIDE else 3)
    return figure


def timeline(periods: Sequence[Period], width: float = canvas.WIDE) -> "Figure":
    """Success with its interval above, the number of trajectories below."""
    figure = canvas.new_figure(width, 4.4, gap=0.05)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    judged = [(index, period.success) for index, period in enumerate(periods) if period.success is not None]
    indices = [index for index, _ in judged]
    above.plot(indices, [success.value for _, success in judged], "-o", color=canvas.AFTER, markersize=4, zorder=3)
    for index, success in judged:
        if success.low is not None and success.high is not None:
            above.plot([index] * 2, [success.low, success.high], color=canvas.MIDDLE, linewidth=1.4, zorder=2)
    canvas.percent_axis(above, "y")
    above.set_ylim(-0.03, 1.05)
    above.set_ylabel("success")
    below.bar(range(len(periods)), [period.trajectories for period in periods], 0.8, color=canvas.BEFORE, zorder=2)
    below.set_ylabel("trajectories")
    canvas.count_axis(below)
    step = -(-len(periods) // _MOST_TICKS[width])
    ticks = range(0, len(periods), step)
    below.set_xticks(ticks, [periods[tick].label for tick in ticks], fontsize=9)
    return figure


def gates(rows: Sequence[GateRow], width: float = canvas.WIDE) -> "Figure":
    """The share that passes each gate; required ones first and in another colour."""
    figure = canvas.new_figure(width, 0.9 + 0.34 * len(rows))
    axes = figure.subplots()
    for position, row in enumerate(rows):
        colour = canvas.GOOD if row.is_required else canvas.MIDDLE
        axes.barh(position, row.share, 0.7, color=colour, zorder=2)
        axes.barh(position, 1 - row.share, 0.7, left=row.share, color=canvas.BAD, zorder=2)
        axes.text(1.02, position, _short(row.share), va="center", fontsize=9.5, color=canvas.INK)
    names = [row.name if row.is_required else f"{row.name} (warning)" for row in rows]
    axes.set_yticks(range(len(rows)), names, color=canvas.INK)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    canvas.percent_axis(axes, "x", ticks=5 if width == canvas.WIDE else 3)
    return figure


def _short(share: float) -> str:
    """Not rounded to 100 % where some fail."""
    if 0.9995 <= share < 1:
        return "< 100 %"
    return percent(share).replace("\u00a0", " ")
