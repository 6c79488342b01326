"""Learning curves: one JSON object a line, written as it happens. No torch here.

A resumed run cuts its curve back to the checkpoint it goes on from, so every unit stands on it once. What the
metrics mean, and in which of them a resumed run differs, stands in ``upturn.training.runs.metric``.
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
    """What is known after a unit."""

    units: int
    """Finished so far: 0 = before any training."""
    steps: int
    """Of the optimiser, so far."""
    metrics: Mapping[str, float | None]
    """By name; None = not a finite number."""


Progress: TypeAlias = Callable[[CurvePoint], None]
"""Is called with every point of a curve."""


class Curve:
    """Writes a curve file. Open as long as the run lasts; close it, or use it in ``with``."""

    def __init__(self, path: Path, *, keep_units: int | None) -> None:
        """Cuts an existing file to the points of at most ``keep_units`` units; None = to nothing."""
        found = read_curve(path) if keep_units is not None and path.exists() else ()
        self.kept = tuple(point for point in found if keep_units is not None and point.units <= keep_units)
        """The points that the curve began with."""
        partial = path.with_name(path.name + ".partial")
        partial.write_text("".join(map(_line, self.kept)))
        partial.replace(path)
        self._file = path.open("a")

    def append(self, point: CurvePoint) -> None:
        """Visible to readers when it returns."""
        self._file.write(_line(point))
        self._file.flush()

    def sync(self) -> None:
        """Makes what was appended durable."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """The curve takes no more points."""
        self._file.close()

    def __enter__(self) -> "Curve":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_curve(path: Path) -> tuple[CurvePoint, ...]:
    """All points in order. A last line that was being written when the process died is left out.

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
