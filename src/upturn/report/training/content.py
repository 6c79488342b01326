"""A training run as read from its folder, finished or not; the page is a pure function of it."""

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
    """The content of a page about a training run."""

    name: str
    """Of the run's folder."""
    description: RunDescription
    points: tuple[CurvePoint, ...]
    outcome: TrainingOutcome | None
    """None = running, or interrupted."""
    written: str = ""
    """When the latest point was written; empty = the run has ended, or has no point."""
    has_warm_up: bool = False
    """Whether the first weights are those of a supervised warm-up."""

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
        """(units, value) wherever the metric is known."""
        points = ((point.units, point.metrics.get(metric)) for point in self.points)
        return [(units, value) for units, value in points if value is not None]


def broken_limits(point: CurvePoint, description: RunDescription) -> tuple[str, ...]:
    """The costs of an evaluation that are above their limits."""
    costs = {name: point.metrics.get(f"cost_{name}") for name in description.plan.cost_limits}
    limits = description.plan.cost_limits
    return tuple(name for name, cost in costs.items() if cost is not None and cost > limits[name])


def read_training(folder: Path) -> TrainingReport:
    """The present content of a training run's folder; raises TrainingError when it holds none, or is damaged."""
    description, outcome = read_description(folder), read_outcome(folder)
    curve = folder / CURVE_FILE
    points = read_curve(curve) if curve.exists() else ()
    is_open = outcome is None and bool(points)
    moment = datetime.fromtimestamp(curve.stat().st_mtime, UTC) if is_open else None
    return TrainingReport(
        folder.resolve().name,
        description,
        points,
        outcome,
        "" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC",
        (folder / WARM_UP_FOLDER / DESCRIPTION_FILE).is_file(),
    )
