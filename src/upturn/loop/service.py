"""The service of tasks: route, run, judge, remember. Everything that lets agents work goes through here.

Tasks are served in waves. A wave's decisions are made from what was known when it began, its attempts run together,
its records are stored in one transaction, and only then the router learns, in the order of the tasks. So a wave is
done wholly or not at all, and serving it again after an interruption finds what was stored and goes on.
"""

from collections.abc import Sequence
from typing import NamedTuple

from upturn.agents import trajectory_id
from upturn.arbiter import Router, RoutingOutcome
from upturn.environments import verify
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.failure_summary import Troubles
from upturn.pool import Pool, PoolBatch
from upturn.records import (
    AgentVersion,
    Decision,
    Evaluation,
    Task,
    Trajectory,
)


class Served(NamedTuple):
    """One task, from decision to judgement."""

    task: Task
    decision: Decision
    trajectory: Trajectory
    evaluation: Evaluation


class Service:
    """Serves waves of tasks for one run. Not thread-safe."""

    def __init__(self, runtime: AgentRuntime, router: Router, pool: Pool, purpose: Purpose) -> None:
        self.runtime = runtime
        self.router = router
        self.pool = pool
        self.purpose = purpose
        self.troubles = Troubles()
        """Of what it served since they were last cleared, as they are where a stage begins."""

    def serve(self, tasks: Sequence[Task]) -> list[Served]:
        """One wave, in the order of the tasks. What is returned is durable and has been learned from.

        Raises RoutingError, with nothing stored, when a task has no eligible agent.
        """
        decisions = self._decide(tasks)
        served = self._remembered(tasks, decisions) or self._work(tasks, decisions)
        for each in served:
            self.troubles.add(each.trajectory, each.evaluation)
        outcomes = [RoutingOutcome.of(each.decision, each.evaluation) for each in served]
        self.router.learn_many([each.decision for each in served], outcomes)
        return served

    def _decide(self, tasks: Sequence[Task]) -> list[Decision]:
        """Decisions under the load that the wave itself makes."""
        agents: list[str] = []
        decisions = []
        try:
            for task in tasks:
                decision = self.router.decide(task)
                agents.append(decision.agent)
                self.router.load.acquire(agents[-1])
                decisions.append(decision)
        finally:
            for agent in agents:
                self.router.load.release(agent)
        return decisions

    def _work(self, tasks: Sequence[Task], decisions: Sequence[Decision]) -> list[Served]:
        versions = self.versions()
        jobs = [(versions[decision.chosen], task, 0) for task, decision in zip(tasks, decisions, strict=True)]
        trajectories = self.runtime.attempt(jobs, self.purpose)
        evaluations = [
            verify(self.runtime.kit.verifier, task, trajectory)
            for task, trajectory in zip(tasks, trajectories, strict=True)
        ]
        self.pool.append(
            PoolBatch(tasks=tasks, decisions=decisions, trajectories=trajectories, evaluations=evaluations)
        )
        return [Served(*parts) for parts in zip(tasks, decisions, trajectories, evaluations, strict=True)]

    def _remembered(self, tasks: Sequence[Task], decisions: Sequence[Decision]) -> list[Served]:
        """The wave as it was stored before an interruption; empty when it was not."""
        if not tasks:
            return []
        tenant = tasks[0].tenant
        ids = [
            trajectory_id(self.purpose.key, task.id, decision.chosen, 0)
            for task, decision in zip(tasks, decisions, strict=True)
        ]
        if self.pool.evaluation_of(ids[0], tenant=tenant) is None:
            return []
        stored = self.pool.experiences_of(ids, tenant=tenant)
        return [
            Served(task, decision, experience.trajectory, experience.evaluation)
            for task, decision, experience in zip(tasks, decisions, stored, strict=True)
            if experience.evaluation is not None
        ]

    def versions(self) -> dict[str, AgentVersion]:
        """All versions in service by id, candidates included."""
        found = {}
        for served in self.router.registry.agents().values():
            found[served.incumbent.id] = served.incumbent
            if served.candidate is not None:
                found[served.candidate.id] = served.candidate
        return found
