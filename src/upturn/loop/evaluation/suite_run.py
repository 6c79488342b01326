"""A resumable run of an agent on frozen suites, stored in a pool.

Batches are stored atomically as they finish. Time to the first action, which trajectories do not have, is stored as
feedback; the rubric is pure and is applied again.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import count
from typing import Self

from upturn.config import ApiKeys, PoolConfig
from upturn.errors import JournalError, UnknownNameError
from upturn.loop.evaluation.suite_metrics import SuiteResult, with_rubric
from upturn.loop.recall import embedder_of
from upturn.pool import ALL_TENANTS, Pool, RolloutKey, Selection, recall_before
from upturn.records import Feedback, Recall, Run

FIRST_ACTION = "first_action_seconds"
"""The feedback's metric."""


class SuiteRun:
    """One run; created by ``start`` or ``resume``."""

    def __init__(self, pool: Pool, run: Run) -> None:
        """``run``: as stored."""
        self._pool, self._run = pool, run
        self.key = run.id

    @classmethod
    def start(cls, pool: Pool, run: Run) -> Self:
        """Starts a run; a number is appended to its id if the pool has that id already."""
        known = {earlier.id for earlier in pool.states(Run)}
        names = (run.id if number == 1 else f"{run.id}-{number}" for number in count(1))
        run = replace(run, id=next(name for name in names if name not in known))
        pool.append(run)
        return cls(pool, run)

    @classmethod
    def resume(cls, pool: Pool, run: Run) -> Self:
        """Resumes the stored run with this id.

        Raises UnknownNameError if the pool has none, JournalError if it was started with other settings.
        """
        stored = {earlier.id: earlier for earlier in pool.states(Run)}.get(run.id)
        if stored is None:
            raise UnknownNameError(
                f"the pool {str(pool.location)!r} has no run {run.id!r}; omit --resume to start one"
            )
        differences = [
            f"{name} was {old!r}, is {new!r}"
            for name in (field.name for field in fields(Run) if field.name != "state")
            if (old := getattr(stored, name)) != (new := getattr(run, name))
        ]
        if differences:
            raise JournalError(
                f"the run {run.id!r} cannot be resumed: {'; '.join(differences)}. "
                "Resume it with the options it was started with, or start a new one"
            )
        return cls(pool, stored)

    def results(self, suite: str) -> list[SuiteResult]:
        """The stored results of a suite, in the order in which they were stored."""
        stored = self._pool.experiences(Selection(run=self._name(suite)), tenant=ALL_TENANTS, has_tokens=False)
        return [
            with_rubric(item.task, item.trajectory, item.evaluation, self._first_seconds(item.trajectory.id))
            for item in stored
            if item.evaluation is not None
        ]

    def store(self, suite: str, batch: Sequence[SuiteResult], *, offset: int) -> None:
        """Stores results of a suite durably; ``offset``: number of its results stored before."""
        feedback = [
            Feedback(
                id=f"{self.key}/{FIRST_ACTION}/{result.trajectory.id}",
                subject_kind="trajectory",
                subject_id=result.trajectory.id,
                metric=FIRST_ACTION,
                value=result.first_seconds,
                tenant=result.task.tenant,
            )
            for result in batch
            if result.first_seconds is not None
        ]
        records = [record for result in batch for record in (result.task, result.trajectory, result.evaluation)]
        self._pool.append(*records, *feedback, rollout=RolloutKey(self._name(suite), offset))

    def recall(self, settings: PoolConfig, keys: ApiKeys) -> Recall:
        """What the agent may recall: what the pool had when the run started."""
        return recall_before(self._pool, self.key, embedder_of(settings, keys, self._pool))

    def finish(self) -> None:
        """Marks the run as done."""
        self._pool.append(replace(self._run, state="done"))

    def _name(self, suite: str) -> str:
        return f"{self.key}/{suite}"

    def _first_seconds(self, trajectory_id: str) -> float | None:
        feedback = self._pool.feedback(tenant=ALL_TENANTS, subject_id=trajectory_id)
        return next((item.value for item in feedback if item.metric == FIRST_ACTION), None)
