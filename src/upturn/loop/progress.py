"""Progress of long-running work, independent of how it is displayed."""

from collections.abc import Callable
from typing import Protocol

from upturn.training.runs import CurvePoint


class Progress(Protocol):
    """Receives progress reports; displaying them never changes the work."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Starts the next stage and ends the previous one; ``total`` units of work, None = unknown."""

    def advance(self, count: int = 1, **figures: float) -> None:
        """Adds ``count`` finished units to the current stage; ``figures`` are latest values by name."""

    def note(self, text: str) -> None:
        """Shows a sentence, such as a verdict."""

    def figure(self, name: str, value: float | str) -> None:
        """Sets the latest value of a figure; the history of numbers may be drawn."""


class NoProgress:
    """Shows nothing."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Does nothing."""

    def advance(self, count: int = 1, **figures: float) -> None:
        """Does nothing."""

    def note(self, text: str) -> None:
        """Does nothing."""

    def figure(self, name: str, value: float | str) -> None:
        """Does nothing."""


def curve_reporter(progress: Progress, **metrics: str) -> Callable[[CurvePoint], None]:
    """A callback that reports a training run's points: units done, and figures by the name of their metric."""
    done = 0

    def report(point: CurvePoint) -> None:
        nonlocal done
        values = {figure: point.metrics.get(metric) for figure, metric in metrics.items()}
        figures = {figure: value for figure, value in values.items() if value is not None}
        progress.advance(point.units - done, **figures)
        done = point.units

    return report
