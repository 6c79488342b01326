"""Why trajectories fail or have no verdict, shown during serving: a success rate of 0 alone hides the cause."""

from collections import Counter

from upturn.loop.progress import Progress
from upturn.records import Evaluation, Trajectory

_MAX_CAUSE_CHARACTERS = 200
"""A cause shares a line with others; the records hold all of it."""


class FailureSummary:
    """Counts of trajectories that ended in an error or have no verdict, by recorded cause."""

    def __init__(self) -> None:
        self.trajectories = 0
        self.errors = 0
        """Number of trajectories that ended in an error of the agent or the environment."""
        self._causes: dict[str, Counter[str]] = {}
        """By kind of failure."""

    def add(self, trajectory: Trajectory, evaluation: Evaluation) -> None:
        """Counts one trajectory."""
        self.trajectories += 1
        if trajectory.outcome in ("environment_error", "model_error"):
            self.errors += 1
            self._count(f"ended in {trajectory.outcome}", trajectory.error)
        if evaluation.verdict == "missing":
            details = [gate.detail for gate in evaluation.gates if not gate.is_passed and gate.detail]
            self._count("could not be evaluated", details[0] if details else "")

    def clear(self) -> None:
        """Resets all counts."""
        self.trajectories = self.errors = 0
        self._causes.clear()

    def text(self) -> str:
        """``60 of 60 trajectories ended in environment_error: RuntimeError: boom``, the most common failure first.

        Each failure has its most common cause, with a count where there are several. Empty = no failures.
        """
        parts = []
        for failure, causes in sorted(self._causes.items(), key=lambda item: -item[1].total()):
            ((cause, count),) = causes.most_common(1)
            partly = "" if count == causes.total() else f", {count} of them"
            parts.append(f"{causes.total()} of {self.trajectories} trajectories {failure}{partly}: {cause}")
        return "; ".join(parts)

    def _count(self, failure: str, cause: str) -> None:
        line = " ".join(cause.split()) or "no cause was recorded"
        if len(line) > _MAX_CAUSE_CHARACTERS:
            line = f"{line[:_MAX_CAUSE_CHARACTERS]}…"
        self._causes.setdefault(failure, Counter())[line] += 1


class FailureProgress:
    """Forwards progress, and adds the failures of the current stage to its figures."""

    def __init__(self, progress: Progress, failures: FailureSummary) -> None:
        self._progress = progress
        self._failures = failures

    def stage(self, name: str, total: int | None = None) -> None:
        """Starts a stage with no failures."""
        self._failures.clear()
        self._progress.stage(name, total)

    def advance(self, count: int = 1, **figures: float) -> None:
        """Forwards the figures, then the failures so far."""
        self._progress.advance(count, **figures)
        text = self._failures.text()
        if text:
            self._progress.figure("failures", text)

    def note(self, text: str) -> None:
        """Forwards the note."""
        self._progress.note(text)

    def figure(self, name: str, value: float | str) -> None:
        """Forwards the figure."""
        self._progress.figure(name, value)
