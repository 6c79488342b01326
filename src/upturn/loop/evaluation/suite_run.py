"""A run of an agent over frozen suites, kept in a pool: what was attempted and judged is never made again.

A batch is stored as it finishes, all or nothing. Seconds to the first action, which no trajectory has, are feedback
on it; the rubric is pure and is applied anew.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import count
from typing import Self

from upturn.errors import JournalError, UnknownNameError
from upturn.loop.evaluation.suite_metrics import Finished, recalled
from upturn.pool import ALL_TENANTS, Pool, RolloutKey, Selection
from upturn.records import Feedback, Run

FIRST_ACTION = "first_action_seconds"
"""The feedback's metric."""


class Sitting:
    """One run; made by ``begun`` or ``resumed``."""

    def __init__(self, pool: Pool, run: Run) -> None:
        """``run``: as it is stored."""
        self._pool, self._run = pool, run
        self.key = run.id

    @classmethod
    def begun(cls, pool: Pool, run: Run) -> Self:
        """A new run; it has a number behind its id where the pool has that id already."""
        taken = {each.id for each in pool.states(Run)}
        names = (run.id if number == 1 else f"{run.id}-{number}" for number in count(1))
        run = replace(run, id=next(name for name in names if name not in taken))
        pool.append(run)
        return cls(pool, run)

    @classmethod
    def resumed(cls, pool: Pool, run: Run) -> Self:
        """The run of this id goes on; raises UnknownNameError where the pool has none, and JournalError where it
        was started with something else.
        """
        stored = {each.id: each for each in pool.states(Run)}.get(run.id)
        if stored is None:
            raise UnknownNameError(
                f"the pool {str(pool.path)!r} has no run {run.id!r}; leave --resume out to begin one"
            )
        differences = [
            f"{name} is {old!r} there and {new!r} now"
            for name in (each.name for each in fields(Run) if each.name != "state")
            if (old := getattr(stored, name)) != (new := getattr(run, name))
        ]
        if differences:
            raise JournalError(
                f"the run {run.id!r} cannot go on: {'; '.join(differences)}. "
                "Resume it with what it was started with, or start a new one"
            )
        return cls(pool, stored)

    def finished(self, suite: str) -> list[Finished]:
        """What is stored of a suite, in the order in which it was."""
        found = self._pool.experiences(Selection(run=self._name(suite)), tenant=ALL_TENANTS, has_tokens=False)
        return [
            recalled(each.task, each.trajectory, each.evaluation, self._first_seconds(each.trajectory.id))
            for each in found
            if each.evaluation is not None
        ]

    def keep(self, suite: str, batch: Sequence[Finished], *, after: int) -> None:
        """Stores attempts at a suite; durable when it returns. ``after``: how many of it are stored already."""
        feedback = [
            Feedback(
                id=f"{self.key}/{FIRST_ACTION}/{each.trajectory.id}",
                subject_kind="trajectory",
                subject_id=each.trajectory.id,
                metric=FIRST_ACTION,
                value=each.first_seconds,
                tenant=each.task.tenant,
            )
            for each in batch
            if each.first_seconds is not None
        ]
        records = [record for each in batch for record in (each.task, each.trajectory, each.evaluation)]
        self._pool.append(*records, *feedback, rollout=RolloutKey(self._name(suite), after))

    def end(self) -> None:
        """Marks the run as done."""
        self._pool.append(replace(self._run, state="done"))

    def _name(self, suite: str) -> str:
        return f"{self.key}/{suite}"

    def _first_seconds(self, trajectory_id: str) -> float | None:
        told = self._pool.feedback(tenant=ALL_TENANTS, subject_id=trajectory_id)
        return next((each.value for each in told if each.metric == FIRST_ACTION), None)
