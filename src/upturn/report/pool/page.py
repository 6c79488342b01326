"""The page of a pool, as one self-contained HTML file."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from upturn.report import canvas
from upturn.report.number import duration, number, percent, percent_interval
from upturn.report.page import environment, write_atomically
from upturn.report.picture import Picture
from upturn.report.pool import drawing
from upturn.report.pool.content import PoolReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _Plan(NamedTuple):
    """A figure to draw."""

    name: str
    title: str
    caption: str
    draw: Callable[[float], "Figure"]


def render_pool(report: PoolReport) -> str:
    """The whole page as HTML5 text."""
    pictures = {}
    for plan in _plans(report):
        with canvas.style():
            wide = canvas.svg(plan.draw(canvas.WIDE), plan.name)
            narrow = canvas.svg(plan.draw(canvas.NARROW), f"{plan.name}-narrow")
        pictures[plan.name] = Picture(plan.name, plan.title, plan.caption, wide, narrow)
    return environment().get_template("pool.html").render(report=report, pictures=pictures, tiles=tiles(report))


def write_pool_report(report: PoolReport, path: Path) -> None:
    """Writes the page to ``path`` atomically; the folder must exist."""
    write_atomically(path, render_pool(report))


def tiles(report: PoolReport) -> Sequence[tuple[str, str, str]]:
    """The figures at the top: word, figure, and what more there is to say."""
    volume = report.volume
    shown = [
        ("trajectories", f"{volume.trajectories:,}", f"of {volume.tasks:,} tasks, {volume.turns:,} turns"),
        ("success", "–" if report.success is None else percent(report.success.value), _interval(report)),
        (
            "clean data points",
            "–" if report.clean is None else percent(report.clean.value),
            "pass all required quality gates",
        ),
        ("tokens written", number(volume.written_tokens), f"{number(volume.prompt_tokens)} read"),
        ("time of work", duration(volume.work_seconds), "all trajectories together"),
    ]
    if volume.cost_usd is not None:
        shown.append(("cost", f"{volume.cost_usd:,.2f} USD", "of model calls whose price is known"))
    return shown


def _interval(report: PoolReport) -> str:
    success = report.success
    return "nothing has a verdict" if success is None else f"{percent_interval(success)}, n = {success.n:,}"


def _plans(report: PoolReport) -> Iterator[_Plan]:
    if len(report.periods) > 1:
        caption = "By the time at which trajectories were recorded (UTC), with 95 % intervals."
        yield _Plan("time", "Success over time", caption, partial(drawing.timeline, report.periods))
    for name, title, rows in (
        ("families", "Success by family", report.families),
        ("agents", "Success by agent version", report.agents),
    ):
        judged = [row for row in rows if row.success is not None]
        if judged:
            more = f" The first {drawing.MOST_ROWS} of {len(judged)}." if len(judged) > drawing.MOST_ROWS else ""
            caption = f"Share of successes among trajectories with a verdict, with 95 % intervals (Wilson).{more}"
            yield _Plan(name, title, caption, partial(drawing.groups, rows))
    tested = [row for row in report.gates if row.points]
    if tested:
        caption = "Share of data points that pass each gate. A clean data point passes all that are no warning."
        yield _Plan("gates", "Quality gates", caption, partial(drawing.gates, tested))
