"""What a tracker is.

A tracker is a client of a service. One thread calls it (``feed``), in order; whatever it raises is counted and
never reaches the run. Keys and addresses come from the client's own environment variables and files.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

RunEnd = Literal["finished", "failed", "interrupted"]


class TrackedRun(NamedTuple):
    """A run as a tracker sees it."""

    id: str | None
    """The service's id of the run to continue; None = a new run."""
    project: str
    name: str
    folder: Path
    """The folder of the run, for files of the client."""
    parameters: Mapping[str, str]
    """What decides the result: model, algorithm, settings, seed, data."""


class Tracker(Protocol):
    """A run of a service."""

    @property
    def id(self) -> str:
        """Returns the service's id of the run, with which it is continued."""

    def log(self, units: int, values: Mapping[str, float]) -> None:
        """Sends the metrics after ``units`` units, by ``group/name``; units never decrease."""

    def close(self, end: RunEnd) -> None:
        """Ends the run, as the last call."""


def end_of(error: type[BaseException] | None) -> RunEnd:
    """Returns how a run ended that ``error`` ended; None = none."""
    if error is None:
        return "finished"
    return "interrupted" if issubclass(error, KeyboardInterrupt) else "failed"
