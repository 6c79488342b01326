"""Points of a curve on their way to a tracker: in a thread, in order, and without effect on the run.

A tracker that fails gets the points that it lacks with the next one. The first failure is a warning, and so is the
number of points that it lacks at the end. ``NAME.json`` in the feed's folder has the id of the service's run and
the units sent so far, so that a resumed run continues there and sends no point twice."""

import math
import warnings
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from upturn.errors import RecordError, error_text
from upturn.records import from_json, record, to_json
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import group_of
from upturn.training.runs.trackers.registry import open_tracker
from upturn.training.runs.trackers.tracker import RunEnd, TrackedRun, Tracker

CLOSE_SECONDS = 30.0
"""How long the end of a run waits for a tracker; clients need seconds to send what they hold."""


@record
class _Sent:
    """How far a tracker is."""

    id: str
    units: int
    """Of the last point; -1 = no point."""


class TrackerFeed:
    """Feeds one tracker. Single use; must be closed. Its methods return at once, ``close`` excepted."""

    def __init__(self, name: str, run: TrackedRun, folder: Path, points: Sequence[CurvePoint] | None) -> None:
        """``points``: those on the curve of a resumed run, of which the missing ones are sent; None = a new run."""
        self._name = name
        self._path = folder / f"{name}.json"
        if points is None:
            self._path.unlink(missing_ok=True)
        self._sent = self._read()
        self._known_units = -1 if self._sent is None else self._sent.units
        """Units of the last point that an earlier process sent."""
        self._run = run if self._sent is None else run._replace(id=self._sent.id)
        self._queue = SimpleQueue[CurvePoint | RunEnd]()
        self._unsent = deque[CurvePoint]()
        self._appended = self._delivered = 0
        """Numbers of points."""
        self._tracker: Tracker | None = None
        self.failures = 0
        """Failed tries to send so far."""
        self._error = ""
        """Of the first failure, until it is reported."""
        self._thread = Thread(target=self._work, name=f"upturn-{name}", daemon=True)
        self._thread.start()
        for point in points or ():
            self.append(point)

    def append(self, point: CurvePoint) -> None:
        """Sends a point soon, unless an earlier process sent it."""
        if point.units > self._known_units:
            self._appended += 1
            self._queue.put(point)
        self._report()

    def close(self, end: RunEnd, *, seconds: float = CLOSE_SECONDS) -> None:
        """Sends the rest and ends the tracker's run, within ``seconds``."""
        self._queue.put(end)
        self._thread.join(seconds)
        self._report()
        missing = self._appended - self._delivered
        if self._thread.is_alive() or missing:
            warnings.warn(
                f"tracker {self._name!r} lacks {missing} points of the run ({self.failures} failed tries); "
                "curve.jsonl has them, and resuming the run sends them",
                stacklevel=2,
            )

    def _work(self) -> None:
        while isinstance(item := self._queue.get(), CurvePoint):
            self._unsent.append(item)
            self._try_to_send()
        if self._unsent:
            self._try_to_send()
        if self._tracker is not None:
            try:
                self._tracker.close(item)
            except Exception as exc:  # noqa: BLE001  # the boundary: see the module
                self._fail(exc)

    def _try_to_send(self) -> None:
        """Sends all points that the tracker lacks, in order, up to the first failure."""
        try:
            if self._tracker is None:
                self._tracker = open_tracker(self._name, self._run)
                self._remember(self._known_units)
            while self._unsent:
                point = self._unsent[0]
                self._tracker.log(point.units, _values(point))
                self._remember(point.units)
                self._unsent.popleft()
                self._delivered += 1
        except Exception as exc:  # noqa: BLE001  # the boundary: see the module
            self._fail(exc)

    def _fail(self, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            self._error = error_text(error)

    def _report(self) -> None:
        """Warns of the first failure; in the thread of the run, since warnings may be errors there."""
        error, self._error = self._error, ""
        if error:
            warnings.warn(
                f"tracker {self._name!r} failed: {error}. Training goes on; later points bring what it lacks",
                stacklevel=3,
            )

    def _remember(self, units: int) -> None:
        assert self._tracker is not None
        self._sent = _Sent(self._tracker.id, units)
        self._path.parent.mkdir(exist_ok=True)
        partial = self._path.with_name(self._path.name + ".partial")
        partial.write_text(to_json(self._sent) + "\n")
        partial.replace(self._path)

    def _read(self) -> _Sent | None:
        """None = nothing is known of an earlier run of the tracker."""
        try:
            return from_json(_Sent, self._path.read_text())
        except (OSError, UnicodeDecodeError, RecordError):
            return None


def _values(point: CurvePoint) -> dict[str, float]:
    return {
        f"{group_of(name)}/{name}": value
        for name, value in point.metrics.items()
        if value is not None and math.isfinite(value)
    }
