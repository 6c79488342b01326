"""The service of tasks: route, run, evaluate, store. All served tasks go through here.

Tasks are served in waves. A wave's decisions use the router's state at its start, its rollouts run concurrently,
its records are stored in one transaction, and only then does the router learn what the pool has. So a wave is
atomic, and serving it again after an interruption continues from the stored records.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from upturn.agents import trajectory_id
from upturn.arbiter import Learner, Router
from upturn.environments import verify_all
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.failure_summary import FailureSummary
from upturn.pool import Pool
from upturn.pool.access import Border
from upturn.pool.serving import evaluated_until
from upturn.records import AgentVersion, Decision, Evaluation, Task, Trajectory

RecordT = TypeVar("RecordT", Task, Decision, Trajectory, Evaluation)


class Served(NamedTuple):
    """One served task with its records."""

    task: Task
    decision: Decision
    trajectory: Trajectory
    evaluation: Evaluation


class Service:
    """Serves waves of tasks for one run. Not thread-safe."""

    def __init__(
        self,
        runtime: AgentRuntime,
        router: Router,
        pool: Pool,
        purpose: Purpose,
        *,
        learner: Learner,
        border: Border | None = None,
    ) -> None:
        """``border``: decides what is stored; None = all records as they are, as training needs them."""
        self.runtime = runtime
        self.router = router
        self.pool = pool
        self.purpose = purpose
        self.learner = learner
        self.border = border
        self.failures = FailureSummary()
        """Failures of the tasks served since the last ``clear``, which each stage calls at its start."""

    def serve(self, tasks: Sequence[Task]) -> list[Served]:
        """Serves one wave, in the order of the tasks; on return it is durable and the router has learned from it.

        Raises RoutingError, with nothing stored, when a task has no eligible agent.
        """
        stored = self._load_stored(tasks)
        fresh = [task for task in tasks if task.id not in stored]
        served = stored | {item.task.id: item for item in self.run(fresh, self.decide(fresh), self.versions())}
        wave = [served[task.id] for task in tasks]
        for item in wave:
            self.failures.add(item.trajectory, item.evaluation)
        # Up to this wave, not further: after an interruption the next one is decided from the same state again.
        self.learner.catch_up(until=evaluated_until(self.pool.engine, [item.evaluation.id for item in wave]))
        return wave

    def decide(self, tasks: Sequence[Task]) -> list[Decision]:
        """Returns decisions under the load of the wave itself; raises RoutingError without an eligible agent."""
        decisions: list[Decision] = []
        try:
            for task in tasks:
                decisions.append(self.router.decide(task))
                self.router.load.acquire(decisions[-1].agent)
        finally:
            for decision in decisions:
                self.router.load.release(decision.agent)
        return decisions

    def run(
        self, tasks: Sequence[Task], decisions: Sequence[Decision], versions: Mapping[str, AgentVersion]
    ) -> list[Served]:
        """Runs and evaluates the tasks by their decisions, and stores all of it in one transaction.

        ``versions``: those that were in service at the decisions, by id."""
        if not tasks:
            return []
        jobs = [(versions[decision.chosen], task, 0) for task, decision in zip(tasks, decisions, strict=True)]
        trajectories = self.runtime.rollout(jobs, self.purpose)
        evaluations = verify_all(self.runtime.kit.verifier, list(zip(tasks, trajectories, strict=True)))
        self.pool.append(
            *self._stored(tasks, tasks),
            *self._stored(decisions, tasks),
            *self._stored(trajectories, tasks),
            *self._stored(evaluations, tasks),
        )
        return [Served(*parts) for parts in zip(tasks, decisions, trajectories, evaluations, strict=True)]

    def _stored(self, records: Sequence[RecordT], tasks: Sequence[Task]) -> Sequence[RecordT]:
        """Returns the records of these tasks as they are stored."""
        if (border := self.border) is None:
            return records
        return [border.stored(record, tenant=task.tenant) for record, task in zip(records, tasks, strict=True)]

    def _load_stored(self, tasks: Sequence[Task]) -> dict[str, Served]:
        """The tasks that were served before an interruption, by id, as they were decided then."""
        if not tasks:
            return {}
        tenant, by_id = tasks[0].tenant, {self.router.decision_id(task): task for task in tasks}
        decided = [
            (by_id[decision.id], decision)
            for decision in self.pool.decisions(tenant=tenant, task_ids=[task.id for task in tasks])
            if decision.id in by_id
        ]
        ids = [trajectory_id(self.purpose.key, task.id, decision.chosen, 0) for task, decision in decided]
        return {
            task.id: Served(task, decision, experience.trajectory, experience.evaluation)
            for (task, decision), experience in zip(
                decided, self.pool.experiences_of(ids, tenant=tenant), strict=True
            )
            if experience.evaluation is not None
        }

    def versions(self) -> dict[str, AgentVersion]:
        """All versions in service by id, candidates included."""
        return {
            version.id: version
            for served in self.router.registry.agents().values()
            for version in (served.incumbent, served.candidate)
            if version is not None
        }
