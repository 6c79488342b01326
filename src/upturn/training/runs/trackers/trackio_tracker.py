"""trackio, by its client: ``pip install 'upturn[trackio]'``.

Without ``TRACKIO_SPACE_ID`` or ``TRACKIO_SERVER_URL`` it writes to ``TRACKIO_DIR`` on this machine, which ``trackio
show`` displays. It identifies runs by their names.
"""

from collections.abc import Mapping
from uuid import uuid4

from upturn.training.runs.trackers.tracker import RunEnd, TrackedRun


class TrackioTracker:
    """A run of trackio."""

    def __init__(self, run: TrackedRun) -> None:
        import trackio

        self.id = run.id or f"{run.name}-{uuid4().hex[:8]}"
        self._run = trackio.init(
            run.project,
            self.id,
            config=dict(run.parameters),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def log(self, units: int, values: Mapping[str, float]) -> None:
        """Sends the metrics, with the units as the step."""
        self._run.log(dict(values), step=units)

    def close(self, _end: RunEnd) -> None:
        """Sends the rest; trackio knows no states of runs."""
        self._run.finish()
