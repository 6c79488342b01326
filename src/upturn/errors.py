"""Every error Upturn raises on purpose, named by the boundary that failed.

Each type also is the standard-library type it refines, so ``except ValueError`` keeps working.
A message says what was wrong, the value, what is allowed and what to do.
"""

from collections.abc import Sequence

_LONGEST_DESCRIPTION = 1000
"""Characters: the message of an error may hold a whole document."""


class UpturnError(Exception):
    """Base of all errors raised on purpose; the command line prints these without a traceback."""

    exit_code = 1


def described(exc: BaseException, *, longest: int = _LONGEST_DESCRIPTION) -> str:
    """The error's type and message, for a record: Unicode text of bounded length, whatever the error says."""
    try:
        message = str(exc)
    except Exception:  # noqa: BLE001  foreign errors may break even here
        message = "its message cannot be shown"
    return f"{type(exc).__name__}: {message}"[:longest].encode("utf-8", "backslashreplace").decode()


class ConfigError(UpturnError, ValueError):
    """One or more settings are unusable; carries all problems, found before any work."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        listed = "\n".join(f"  - {problem}" for problem in self.problems)
        noun = "problem" if len(self.problems) == 1 else "problems"
        super().__init__(f"{len(self.problems)} {noun} in the configuration:\n{listed}")


class RecordError(UpturnError, ValueError):
    """A stored or received record does not have the shape its kind and version promise."""


class UnknownNameError(UpturnError, LookupError):
    """A name that no registry knows; the message lists the known ones."""

    exit_code = 2


class ModelError(UpturnError, RuntimeError):
    """A model's files are missing or damaged, or a model cannot serve a request."""


class ClusterError(UpturnError, RuntimeError):
    """Workers elsewhere cannot be reached, do not start, or work with other weights than they were given."""


class WorldError(UpturnError, RuntimeError):
    """An environment broke its contract (never: an agent sent a bad action, which is an observation)."""


class StoreError(UpturnError, RuntimeError):
    """The pool cannot be opened, or refuses a write that would change what was acknowledged."""


class StoreConflictError(StoreError):
    """A write contradicts what is stored, or names what is not: the same write can never succeed."""


class StoreBusyError(StoreError):
    """Another process holds the pool for writing."""


class IngestError(UpturnError, ValueError):
    """An input file cannot be read at all (single bad lines are quarantined instead)."""


class FileFormatError(UpturnError, ValueError):
    """A file cannot be read as what it should be, or something cannot be written as one; the message says why."""


class RoutingError(UpturnError, RuntimeError):
    """No agent is eligible for a task."""


class TrainingError(UpturnError, RuntimeError):
    """A training run cannot start or continue: empty batches, foreign checkpoints, unusable rollouts, too little
    evidence.
    """


class ReleaseError(UpturnError, RuntimeError):
    """A release step is not allowed in the release's present state."""


class JournalError(UpturnError, RuntimeError):
    """A run folder cannot be resumed: other configuration, other version or a damaged journal."""


class MeasurementError(UpturnError, RuntimeError):
    """A measurement cannot be made, or the two sides of a comparison do not compute the same."""
