"""The errors that Upturn raises on purpose, named by the boundary that failed.

Each type also derives from the standard-library type it refines, so ``except ValueError`` keeps working.
A message states what was wrong, the value, what is allowed and what to do.
"""

from collections.abc import Sequence
from typing import Literal


class UpturnError(Exception):
    """Base of all errors raised on purpose; the command line prints them without a traceback."""

    exit_code = 1


def error_text(exc: BaseException, *, longest: int = 1000) -> str:
    """Returns the error's type and message as Unicode text of at most ``longest`` characters. Never raises."""
    try:
        message = str(exc)
    except Exception:  # noqa: BLE001  third-party errors may fail even here
        message = "its message cannot be shown"
    return f"{type(exc).__name__}: {message}"[:longest].encode("utf-8", "backslashreplace").decode()


class ConfigError(UpturnError, ValueError):
    """One or more settings are unusable; ``problems`` lists every problem found."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        listed = "\n".join(f"  - {problem}" for problem in self.problems)
        noun = "problem" if len(self.problems) == 1 else "problems"
        super().__init__(f"{len(self.problems)} {noun} in the configuration:\n{listed}")


class RecordError(UpturnError, ValueError):
    """A stored or received record does not match the schema of its kind and version."""


class UnknownNameError(UpturnError, LookupError):
    """A name is not registered; the message lists the known names."""

    exit_code = 2


class ModelError(UpturnError, RuntimeError):
    """A model's files are missing or damaged, or a model cannot serve a request."""


class ClusterError(UpturnError, RuntimeError):
    """Remote workers cannot be reached, do not start, or use other weights than they were sent."""


class WorldError(UpturnError, RuntimeError):
    """An environment broke its contract. (A bad action of an agent is no error: it gets an observation.)"""


class SandboxError(UpturnError, RuntimeError):
    """A sandbox cannot be made, or its isolation cannot be shown; the untrusted command has not run."""


class StoreError(UpturnError, RuntimeError):
    """The pool cannot be opened or read, or rejects a write."""


class StoreConflictError(StoreError):
    """A write contradicts stored records, or refers to records that are not stored."""


class StoreBusyError(StoreError):
    """Another process has the pool open for writing."""


class LeaseLostError(StoreError):
    """Another process has taken over what this one did alone; its write is refused."""


class IngestError(UpturnError, ValueError):
    """An input file cannot be read at all. (Single bad lines are quarantined instead.)"""


class FileFormatError(UpturnError, ValueError):
    """A file cannot be read in its expected format, or content cannot be written in that format."""


class SharingError(UpturnError, PermissionError):
    """A tenant's records were to be used without its consent."""


class RoutingError(UpturnError, RuntimeError):
    """No agent is eligible for a task."""

    def __init__(
        self, message: str, *, kind: Literal["unavailable", "unable", "over_budget"] = "unavailable"
    ) -> None:
        """``unable``: none of the agents ever may do such a task. ``over_budget``: those that may cost too much."""
        super().__init__(message)
        self.kind = kind


class TrainingError(UpturnError, RuntimeError):
    """A training run cannot start or continue, e.g. for an empty batch or an incompatible checkpoint."""


class ReleaseError(UpturnError, RuntimeError):
    """A release step is not allowed in the release's current state."""


class JournalError(UpturnError, RuntimeError):
    """A run folder cannot be resumed: different configuration or version, or a damaged journal."""


class MeasurementError(UpturnError, RuntimeError):
    """A measurement cannot be made, or the two sides of a comparison do not compute the same."""
