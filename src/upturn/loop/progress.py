"""How long work tells a person where it stands, without knowing how that is shown."""

from collections.abc import Callable
from typing import Protocol

from upturn.training.runs import CurvePoint


class Progress(Protocol):
    """Receives what happens; showing it is somebody else's concern and never changes the work."""

    def stage(self, name: str, total: int | None = None) -> None:
        """The next stage begins and the one before is done; ``total`` units of work, None = not known."""

    def advance(self, count: int = 1, **figures: float) -> None:
        """``count`` more units of the present stage are done; ``figures`` are latest values by name."""

    def note(self, text: str) -> None:
        """A sentence worth keeping, such as a verdict."""

    def figure(self, name: str, value: float | str) -> None:
        """The latest value of something worth watching; numbers are remembered, to show their course."""


class NoProgress:
    """Shows nothing: for tests and for work nobody watches."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Nothing."""

    def advance(self, count: int = 1, **figures: float) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def figure(self, name: str, value: float | str) -> None:
        """Nothing."""


def told(progress: Progress, **metrics: str) -> Callable[[CurvePoint], None]:
    """Passes a training run's course on: units done, those before an interruption too, and figures from metrics."""
    done = 0

    def tell(point: CurvePoint) -> None:
        nonlocal done
        found = {figure: point.metrics.get(metric) for figure, metric in metrics.items()}
        figures = {figure: value for figure, value in found.items() if value is not None}
        progress.advance(point.units - done, **figures)
        done = point.units

    return tell
