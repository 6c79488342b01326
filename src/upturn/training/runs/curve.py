"""Learning curves: JSON lines, one point each, written as the run goes on. No torch here.

A resumed run cuts its curve back to the checkpoint, so every unit is on it once. ``upturn.training.runs.metric``
describes the metrics, and in which of them a resumed run differs.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from upturn.errors import TrainingError
from upturn.records import record


@record
class CurvePoint:
    """The metrics of a unit."""

    units: int
    """Finished so far: 0 = before any training."""
    steps: int
    """Optimiser steps so far."""
    metrics: Mapping[str, float | None]
    """By name; None = not a finite number."""


Progress: TypeAlias = Callable[[CurvePoint], None]
"""Is called with every point of a curve."""


class Curve:
    """Writer of a curve file; close it, or use it in ``with``."""

    def __init__(self, path: Path, *, keep_units: int | None) -> None:
        """Cuts an existing file to the points of at most ``keep_units`` units; None = to nothing."""
        points = read_curve(path) if keep_units is not None and path.exists() else ()
        self.initial_points = tuple(
            point for point in points if keep_units is not None and point.units <= keep_units
        )
        """The points of the file when the curve was opened."""
        partial = path.with_name(path.name + ".partial")
        partial.write_text("".join(map(_line, self.initial_points)))
        partial.replace(path)
        self._file = path.open("a")

    def append(self, point: CurvePoint) -> None:
        """Adds a point, visible to readers on return."""
        self._file.write(_line(point))
        self._file.flush()

    def sync(self) -> None:
        """Makes the appended points durable."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> "Curve":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_curve(path: Path) -> tuple[CurvePoint, ...]:
    """Returns all points in order, without a last line that was incomplete when the process died.

    Raises TrainingError naming file and line for any other damage.
    """
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise TrainingError(f"cannot read the curve {str(path)!r}: {exc}; restore the file") from exc
    points = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            points.append(_point(line.decode()))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as exc:
            shown = line[:80].decode(errors="surrogateescape")
            raise TrainingError(
                f"line {number} of the curve {str(path)!r} is damaged ({exc}): {shown!r}; delete that line"
            ) from exc
    return tuple(points)


def _point(line: str) -> CurvePoint:
    entry = json.loads(line)
    units, steps = entry.pop("units"), entry.pop("steps")
    metrics = {name: None if value is None else float(value) for name, value in entry.items()}
    for name, value in metrics.items():
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{name} is {value}, no finite number")
    return CurvePoint(int(units), int(steps), metrics)


def _line(point: CurvePoint) -> str:
    metrics = {
        name: value if value is not None and math.isfinite(value) else None for name, value in point.metrics.items()
    }
    return json.dumps({"units": point.units, "steps": point.steps, **metrics}) + "\n"
