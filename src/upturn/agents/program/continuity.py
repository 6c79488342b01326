"""How many calls of programs go on with the tokens of an earlier one, and why the others do not.

A call that goes on continues a training row: its prompt is cached, and its conversation is trained as a whole.
Every other call begins a row of its own, with a cause and a cure (``models.upstreams.fork_cause``).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from upturn.agents.program.captured_call import captured_calls
from upturn.agents.program.rendering import is_program
from upturn.dialects import ModelRequest
from upturn.models.upstreams import FORK_CURES, Fork, ForkCause, Memory
from upturn.records import Trajectory

_EXPLAINED = 20
"""Trajectories that are searched for an example of each cause."""
_UNKNOWN = "their prompts do not begin with the tokens of an earlier call"


class Cause(NamedTuple):
    """Why calls began a row."""

    calls: int
    cure: str
    """What happened, and what to do about it."""
    example: str = ""
    """The difference in one of them; empty = there is nothing to show."""


class Continuity(NamedTuple):
    """The calls of programs on their own local model."""

    attempts: int
    calls: int
    """With tokens in a row."""
    causes: Mapping[str, Cause]
    """Of calls that began a row after the first one of their attempt, the most frequent cause first."""
    undelivered: int
    """Answers that no program received; they are not trained."""

    @property
    def share(self) -> float | None:
        """Share of calls that went on, or were the first of their attempt; None = there are no calls."""
        forked = sum(cause.calls for cause in self.causes.values())
        return None if not self.calls else 1.0 - forked / self.calls


class ContinuityCounter:
    """Counts the calls of programs, one trajectory after another; those of other agents are left out."""

    def __init__(self) -> None:
        self._attempts = self._calls = self._undelivered = 0
        self._causes, self._searched = Counter[str](), Counter[str]()
        self._examples: dict[str, str] = {}

    def add(self, trajectory: Trajectory) -> None:
        """Counts the trajectory's calls."""
        if not trajectory.rows or not is_program(trajectory):
            return
        self._attempts += 1
        written = sum(len(row.spans) for row in trajectory.rows)
        self._calls += written
        recorded = sum(call.is_trained for turn in captured_calls(trajectory) for call in turn)
        self._undelivered += max(0, recorded - written)
        causes = [row.fork_cause for row in trajectory.rows if row.fork_cause is not None]
        self._causes.update(causes)
        wanted = {cause for cause in causes if cause not in self._examples and self._searched[cause] < _EXPLAINED}
        if wanted:
            self._searched.update(wanted)
            self._examples |= {fork.cause: fork.detail for fork in forks_of(trajectory) if fork.cause in wanted}

    def result(self) -> Continuity:
        """What was counted so far."""
        causes = {
            cause: Cause(count, FORK_CURES.get(cast(ForkCause, cause), _UNKNOWN), self._examples.get(cause, ""))
            for cause, count in self._causes.most_common()
        }
        return Continuity(self._attempts, self._calls, causes, self._undelivered)


def continuity(trajectories: Iterable[Trajectory]) -> Continuity:
    """The calls of all trajectories."""
    counter = ContinuityCounter()
    for trajectory in trajectories:
        counter.add(trajectory)
    return counter.result()


def forks_of(trajectory: Trajectory) -> list[Fork]:
    """The calls that went on with no earlier one, by their messages and tools; without those of the template."""
    memory = Memory()
    for turn in captured_calls(trajectory):
        for call in turn:
            if call.is_trained and call.answer is not None and call.messages:
                request = ModelRequest(call.model, call.messages, call.tools or ())
                memory.add(memory.start(request), call.answer.parts, ())
    return list(memory.forks)
