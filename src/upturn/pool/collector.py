"""The collector: records of decisions, executions and evaluations that were made elsewhere, of one tenant.

Each record is stored under its own id; the same one again adds nothing. Records of other tenants cannot be named.
Where the tenant anonymises before anything is stored, so does the collector.
"""

import math

from sqlalchemy import select

from upturn.errors import RecordError, UnknownNameError
from upturn.pool import schema
from upturn.pool.access import Border
from upturn.pool.reader import PoolReader
from upturn.pool.store import Pool
from upturn.records import Decision, Evaluation, Feedback, Task, Trajectory

_ERROR = 1e-6
"""Largest difference of a sum of probabilities from 1."""


class Collector:
    """Stores what programs report. Every method returns the number of new records, once they are durable.

    They raise RecordError for contradictions and records of another tenant, UnknownNameError for a task or a
    trajectory that the tenant does not have, and StoreConflictError for an id that is stored with other content.
    """

    def __init__(self, pool: Pool, *, tenant: str, border: Border | None = None) -> None:
        """``border``: of the service; None = a new one."""
        self._pool, self._tenant = pool, tenant
        self._border = border or Border(pool)

    def log_routing_decision(self, decision: Decision, task: Task | None = None) -> int:
        """Stores a decision. ``task``: that it is for; None = it is stored."""
        self._check_tenant("decision", decision.tenant)
        _check_decision(decision)
        self._check_task(decision.task_id, task)
        return self._store(task, decision)

    def log_execution(self, trajectory: Trajectory, task: Task | None = None) -> int:
        """Stores a trajectory. ``task``: that it is for; None = it is stored."""
        self._check_task(trajectory.task_id, task)
        return self._store(task, trajectory)

    def log_evaluation(self, evaluation: Evaluation) -> int:
        """Stores an evaluation of a stored trajectory; it teaches the router as any other."""
        score = evaluation.score
        if score is not None and not 0 <= score <= 1:
            raise RecordError(f"score of evaluation {evaluation.id!r} must be from 0 to 1 or null, got {score!r}")
        owner = _task_of_trajectory(self._pool, evaluation.trajectory_id, tenant=self._tenant)
        if owner is None:
            raise UnknownNameError(
                f"the tenant has no trajectory {evaluation.trajectory_id!r}; log its execution first"
            )
        if owner != evaluation.task_id:
            raise RecordError(
                f"trajectory {evaluation.trajectory_id!r} is of task {owner!r}, not {evaluation.task_id!r}"
            )
        return self._store(evaluation)

    def log_feedback(self, feedback: Feedback) -> int:
        """Stores a feedback value on a record of the tenant."""
        self._check_tenant("feedback", feedback.tenant)
        return self._store(feedback)

    def _store(self, *records: Task | Decision | Trajectory | Evaluation | Feedback | None) -> int:
        stored = [self._border.stored(record, tenant=self._tenant) for record in records if record is not None]
        return self._pool.append(*stored)

    def _check_tenant(self, what: str, tenant: str) -> None:
        if tenant != self._tenant:
            raise RecordError(f"the {what} is of tenant {tenant!r}, and this is {self._tenant!r}")

    def _check_task(self, task_id: str, task: Task | None) -> None:
        if task is None:
            if next(iter(self._pool.tasks(tenant=self._tenant, ids=[task_id])), None) is None:
                raise UnknownNameError(f"the tenant has no task {task_id!r}; give the task with its record")
            return
        self._check_tenant("task", task.tenant)
        if task.id != task_id:
            raise RecordError(f"the record is of task {task_id!r}, and the given task is {task.id!r}")


def _task_of_trajectory(pool: PoolReader, trajectory_id: str, *, tenant: str) -> str | None:
    table = schema.trajectories
    query = select(table.c.task_id).where(table.c.id == trajectory_id, table.c.tenant == tenant)
    with pool.engine.connect() as connection:
        found: str | None = connection.execute(query).scalar()
    return found


def _check_decision(decision: Decision) -> None:
    """Raises RecordError for probabilities that estimates could not use, and for decisions of canaries."""
    total = math.fsum(alternative.probability for alternative in decision.alternatives)
    if any(not 0 <= alternative.probability <= 1 for alternative in decision.alternatives) or (
        abs(total - 1) > _ERROR
    ):
        raise RecordError(
            f"probabilities of decision {decision.id!r} must be from 0 to 1 and sum to 1, got the sum {total!r}"
        )
    if decision.chosen not in {alternative.agent_version for alternative in decision.alternatives}:
        raise RecordError(f"chosen = {decision.chosen!r} of decision {decision.id!r} is none of its alternatives")
    if not 0 < decision.propensity <= 1:
        raise RecordError(
            f"propensity of decision {decision.id!r} must be above 0 and at most 1, got {decision.propensity!r}"
        )
    if decision.release is not None or decision.arm is not None:
        raise RecordError(f"decision {decision.id!r} is of a canary, whose decisions only Upturn's router makes")
