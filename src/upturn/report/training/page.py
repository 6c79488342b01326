"""The page of one training run, as one self-contained HTML file."""

from pathlib import Path
from typing import NamedTuple

from upturn.report import canvas
from upturn.report.page import environment, write_atomically
from upturn.report.picture import Picture
from upturn.report.training import sentence
from upturn.report.training.content import TrainingReport, read_training
from upturn.report.training.drawing import draw
from upturn.report.training.panel import panels
from upturn.training.runs import metric_of

PAGE_FILE = "report.html"


class MetricRow(NamedTuple):
    """One metric's row in the table of all metrics."""

    name: str
    unit: str
    meaning: str
    """Empty = unknown, a metric of the algorithm itself."""
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
            narrow = (
                canvas.svg(draw(panel, report, is_narrow=True), f"{panel.name}-narrow") if panel.is_wide else ""
            )
        pictures.append((Picture(panel.name, panel.title, panel.good, svg, narrow), panel.is_wide))
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
    """Writes ``report.html`` into the folder of a training run atomically, and returns its path.

    The run may be finished, active or interrupted. ``reload_seconds``: see ``render_training``. Raises
    TrainingError if the folder has no run.
    """
    path = folder / PAGE_FILE
    write_atomically(path, render_training(read_training(folder), reload_seconds=reload_seconds))
    return path


def figures(report: TrainingReport) -> list[MetricRow]:
    """A row for every metric of the run."""
    rows = []
    for name in report.metrics:
        values = [value for _, value in report.values(name)]
        if values:
            known = metric_of(name)
            unit, meaning = ("", "") if known is None else (known.unit, known.meaning)
            rows.append(MetricRow(name, unit, meaning, values[0], values[-1], min(values), max(values)))
    return rows
