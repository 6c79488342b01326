"""The quality gates by name: what a data point must pass to be clean, and what is only reported."""

from typing import NamedTuple


class Gate(NamedTuple):
    """One condition."""

    name: str
    version: int
    """Rises when the same data point can pass or fail otherwise than before."""
    is_required: bool
    """Whether a data point that fails it is not clean. The others are warnings for people."""
    meaning: str
    """What a data point that passes has."""

    @property
    def label(self) -> str:
        """``name/version``, as evaluators are named."""
        return f"{self.name}/{self.version}"


GATES = (
    Gate("complete", 1, True, "turns, and neither model nor environment failed"),
    Gate("evaluated", 1, True, "a verdict and a score"),
    Gate("tokens", 1, True, "rows, spans and log-probabilities that agree with each other"),
    Gate("finite", 1, True, "finite numbers in their ranges"),
    Gate("times", 1, True, "a time that is not negative, and that its tokens can have been written in"),
    Gate("untruncated", 1, False, "an end of its own, not a limit of turns, tokens or time"),
    Gate("unique", 1, False, "words that no other task's trajectory has exactly"),
    Gate("distinct", 1, False, "words that no other task's trajectory has almost"),
    Gate("uncontaminated", 1, False, "an instruction that no held-out task has or nearly has"),
    Gate("unleaked", 1, False, "no expected answer in the instruction or the first observation"),
    Gate("plausible", 1, False, "a family whose success rate is in the range of its agent's other families"),
    Gate("agreement", 1, False, "token rows that read as the text of its turns"),
    Gate("judged", 1, False, "a value of each reward component, none missing"),
    Gate("clock", 1, False, "a time that is not in the future, nor before that of an earlier record"),
    Gate("current", 1, False, "tokens of the latest weights of its agent"),
)
"""In the order in which they are shown."""
