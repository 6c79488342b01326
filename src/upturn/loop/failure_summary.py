"""Why attempts break or cannot be judged, told while they are made: a success rate of 0 alone hides the cause."""

from collections import Counter
from typing import NamedTuple

from upturn.loop.progress import Progress
from upturn.records import Evaluation, Trajectory

_LONGEST_CAUSE = 200
"""Characters: a cause stands on a line with others; the records hold it whole."""
_NO_CAUSE = "no cause is recorded"


class _Trouble(NamedTuple):
    """One way in which an attempt came to nothing."""

    what: str
    """After a count of attempts, ``ended in model_error``."""
    cause: str


class Troubles:
    """Counts attempts that broke or could not be judged, by what was recorded as the cause."""

    def __init__(self) -> None:
        self.attempts = 0
        self.broken = 0
        """Those that ended in an error, of the agent or of the environment."""
        self._found: Counter[_Trouble] = Counter()

    def add(self, trajectory: Trajectory, evaluation: Evaluation) -> None:
        """One more attempt."""
        self.attempts += 1
        if trajectory.outcome in ("environment_error", "model_error"):
            self.broken += 1
            self._found[_Trouble(f"ended in {trajectory.outcome}", _line(trajectory.error))] += 1
        if evaluation.verdict == "missing":
            failed = [gate.detail for gate in evaluation.gates if not gate.is_passed and gate.detail]
            self._found[_Trouble("could not be judged", _line("".join(failed[:1])))] += 1

    def clear(self) -> None:
        """Forgets all attempts."""
        self.attempts = self.broken = 0
        self._found.clear()

    def words(self) -> str:
        """``60 of 60 attempts ended in environment_error: RuntimeError: boom``, the commonest trouble first.

        Each with its commonest cause, and how often that was it where there are others. Empty = no trouble.
        """
        whole = Counter[str]()
        for trouble, count in self._found.items():
            whole[trouble.what] += count
        return "; ".join(self._told(what, count) for what, count in whole.most_common())

    def _told(self, what: str, count: int) -> str:
        causes = Counter({trouble.cause: n for trouble, n in self._found.items() if trouble.what == what})
        ((cause, often),) = causes.most_common(1)
        among = "" if often == count else f", {often} of them"
        return f"{count} of {self.attempts} attempts {what}{among}: {cause}"


class TroubleProgress:
    """Passes progress on, with the troubles of the present stage among its figures."""

    def __init__(self, shown: Progress, troubles: Troubles) -> None:
        self._shown = shown
        self._troubles = troubles

    def stage(self, name: str, total: int | None = None) -> None:
        """A new stage begins without troubles."""
        self._troubles.clear()
        self._shown.stage(name, total)

    def advance(self, count: int = 1, **figures: float) -> None:
        """The troubles so far follow the figures."""
        self._shown.advance(count, **figures)
        words = self._troubles.words()
        if words:
            self._shown.figure("trouble", words)

    def note(self, text: str) -> None:
        """As it is."""
        self._shown.note(text)

    def figure(self, name: str, value: float | str) -> None:
        """As it is."""
        self._shown.figure(name, value)


def _line(cause: str) -> str:
    """On one line, shortened."""
    text = " ".join(cause.split()) or _NO_CAUSE
    return text if len(text) <= _LONGEST_CAUSE else f"{text[:_LONGEST_CAUSE]}…"
