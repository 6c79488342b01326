"""The curve as a TensorBoard event file, for those who watch many runs side by side.

The folder holds one file, and the file says what the curve says: a resumed run writes it anew from the curve, so no
step stands in it twice. TensorBoard shows the numbers in float32. Points from before a resume get the times they
would have had, had the run not been stopped: the curve knows how long they took, not when.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import group_of, seconds_of


class EventFile:
    """Writes the event file of a run; close it, or use it in ``with``."""

    def __init__(
        self, folder: Path, points: Sequence[CurvePoint], *, clock: Callable[[], float] = time.time
    ) -> None:
        """Begins the file anew with ``points``, those of the curve so far; earlier files of the folder go.

        ``clock`` gives seconds since 1970.
        """
        folder.mkdir(exist_ok=True)
        for earlier in folder.glob("events.out.tfevents.*"):
            earlier.unlink()
        self._clock = clock
        self._writer = EventsWriter(str(folder / "events"))
        now = clock()
        started = now - sum(map(seconds_of, points))
        # A TensorBoard that has been watching forgets what it has read when it sees this.
        self._writer.write_event(Event(wall_time=started, session_log=SessionLog(status=SessionLog.START)))
        for point in points:
            started += seconds_of(point)
            self._write(point, started)
        self.sync()

    def append(self, point: CurvePoint) -> None:
        """Visible to readers after the next ``sync``."""
        self._write(point, self._clock())

    def sync(self) -> None:
        """Makes what was appended durable."""
        self._writer.flush()

    def close(self) -> None:
        """The file takes no more points."""
        self._writer.close()

    def __enter__(self) -> "EventFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, point: CurvePoint, moment: float) -> None:
        values = [
            Summary.Value(tag=f"{group_of(name)}/{name}", simple_value=value)
            for name, value in point.metrics.items()
            if value is not None
        ]
        self._writer.write_event(Event(wall_time=moment, step=point.units, summary=Summary(value=values)))
