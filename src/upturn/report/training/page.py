"""The page about one training run: one HTML file that needs nothing else."""

from pathlib import Path
from typing import NamedTuple

from upturn.report import canvas
from upturn.report.page import environment, write_whole
from upturn.report.picture import Picture
from upturn.report.training import sentence
from upturn.report.training.content import TrainingReport, read_training
from upturn.report.training.drawing import draw
from upturn.report.training.panel import panels
from upturn.training.runs import metric_of

PAGE_FILE = "report.html"


class Figures(NamedTuple):
    """One metric's line in the table of all figures."""

    name: str
    unit: str
    meaning: str
    """Empty = unknown, a metric of the run's algorithm."""
    first: float
    last: float
    lowest: float
    highest: float


def render_training(report: TrainingReport, *, reload_seconds: float | None = None) -> str:
    """The whole page as HTML5 text.

    ``reload_seconds``: interval at which a browser reloads the page of an unfinished run; None = never.
    """
    pictures = []
    for panel in panels(report):
        with canvas.style():
            svg = canvas.svg(draw(panel, report), panel.name)
        pictures.append((Picture(panel.name, panel.title, panel.good, svg), panel.is_wide))
    return (
        environment()
        .get_template("training.html")
        .render(
            report=report,
            wide=[picture for picture, is_wide in pictures if is_wide],
            narrow=[picture for picture, is_wide in pictures if not is_wide],
            figures=figures(report),
            sentence=sentence,
            reload_seconds=reload_seconds if report.outcome is None else None,
        )
    )


def write_training_report(folder: Path, *, reload_seconds: float | None = None) -> Path:
    """Writes ``report.html`` into the folder of a training run, whole or not at all, and returns its path.

    The run may be finished, running or interrupted. ``reload_seconds``: see ``render_training``. Raises
    TrainingError when there is none.
    """
    path = folder / PAGE_FILE
    write_whole(path, render_training(read_training(folder), reload_seconds=reload_seconds))
    return path


def figures(report: TrainingReport) -> list[Figures]:
    """Every metric of the run in one line each."""
    rows = []
    for name in report.metrics:
        values = [value for _, value in report.values(name)]
        if values:
            known = metric_of(name)
            unit, meaning = ("", "") if known is None else (known.unit, known.meaning)
            rows.append(Figures(name, unit, meaning, values[0], values[-1], min(values), max(values)))
    return rows
