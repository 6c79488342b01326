"""The learning curve as a TensorBoard event file.

The folder has one file with the points of the curve: a resumed run rewrites it from the curve, so no step is in it
twice. TensorBoard shows the numbers in float32. Points from before a resume get the times of an uninterrupted run:
the curve has their durations, not their times."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import group_of, seconds_of


class EventFile:
    """Writer of the event file of a run; close it, or use it in ``with``."""

    def __init__(
        self, folder: Path, points: Sequence[CurvePoint], *, clock: Callable[[], float] = time.time
    ) -> None:
        """Deletes earlier event files of the folder and writes ``points``, those of the curve so far.

        ``clock`` returns seconds since 1970.
        """
        folder.mkdir(exist_ok=True)
        for earlier in folder.glob("events.out.tfevents.*"):
            earlier.unlink()
        self._clock = clock
        self._writer = EventsWriter(str(folder / "events"))
        now = clock()
        started = now - sum(map(seconds_of, points))
        # makes a running TensorBoard discard the points that it has read
        self._writer.write_event(Event(wall_time=started, session_log=SessionLog(status=SessionLog.START)))
        for point in points:
            started += seconds_of(point)
            self._write(point, started)
        self.sync()

    def append(self, point: CurvePoint) -> None:
        """Adds a point, visible to readers after the next ``sync``."""
        self._write(point, self._clock())

    def sync(self) -> None:
        """Flushes the appended points."""
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()

    def __enter__(self) -> "EventFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, point: CurvePoint, wall_time: float) -> None:
        values = [
            Summary.Value(tag=f"{group_of(name)}/{name}", simple_value=value)
            for name, value in point.metrics.items()
            if value is not None
        ]
        self._writer.write_event(Event(wall_time=wall_time, step=point.units, summary=Summary(value=values)))
