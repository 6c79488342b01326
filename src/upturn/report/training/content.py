"""The content of a training run's folder, finished or not; the page is a pure function of it."""

from datetime import UTC, datetime
from pathlib import Path

from upturn.records import record
from upturn.training import TrainingOutcome
from upturn.training.runs import (
    CURVE_FILE,
    DESCRIPTION_FILE,
    WARM_UP_FOLDER,
    CurvePoint,
    RunDescription,
    read_curve,
    read_description,
    read_outcome,
)


@record
class TrainingReport:
    """The content of a training run's page."""

    name: str
    """The name of the run's folder."""
    description: RunDescription
    points: tuple[CurvePoint, ...]
    outcome: TrainingOutcome | None
    """None = running, or interrupted."""
    written: str = ""
    """Time of the latest point; empty = the run has ended, or has no point."""
    has_warm_up: bool = False
    """Whether the run starts with a supervised warm-up."""

    @property
    def evaluations(self) -> tuple[CurvePoint, ...]:
        """The points with a score, in order."""
        return tuple(point for point in self.points if point.metrics.get("score") is not None)

    @property
    def kept(self) -> CurvePoint | None:
        """The evaluation whose weights are kept, or would be if the run ended now.

        None = none is within the limits, or the last weights are kept at any score.
        """
        if self.description.plan.keep == "final":
            return None
        allowed = [point for point in self.evaluations if not broken_limits(point, self.description)]
        return max(allowed, key=lambda point: (point.metrics["score"], -point.units), default=None)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric of the curve, in the order of first appearance."""
        return tuple(dict.fromkeys(name for point in self.points for name in point.metrics))

    def values(self, metric: str) -> list[tuple[int, float]]:
        """(units, value) of all points with the metric."""
        points = ((point.units, point.metrics.get(metric)) for point in self.points)
        return [(units, value) for units, value in points if value is not None]


def broken_limits(point: CurvePoint, description: RunDescription) -> tuple[str, ...]:
    """The costs of an evaluation that are above their limits."""
    costs = (
        (name, limit, point.metrics.get(f"cost_{name}")) for name, limit in description.plan.cost_limits.items()
    )
    return tuple(name for name, limit, cost in costs if cost is not None and cost > limit)


def read_training(folder: Path) -> TrainingReport:
    """The current content of a training run's folder; raises TrainingError if there is none, or it is damaged."""
    description, outcome = read_description(folder), read_outcome(folder)
    curve = folder / CURVE_FILE
    points = read_curve(curve) if curve.exists() else ()
    written = ""
    if outcome is None and points:
        written = f"{datetime.fromtimestamp(curve.stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC"
    has_warm_up = (folder / WARM_UP_FOLDER / DESCRIPTION_FILE).is_file()
    return TrainingReport(folder.resolve().name, description, points, outcome, written, has_warm_up)
