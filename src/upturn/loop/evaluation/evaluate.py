"""Exams: a version attempts a fixed set of tasks, and every attempt is judged and kept."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import fsum
from typing import NamedTuple

from upturn.agents import temperature
from upturn.deployment import Interval, Pair, Validation, bootstrap_mean, paired_bootstrap, validate
from upturn.environments import EnvironmentKit, verify
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.run import Context
from upturn.pool import Pool, PoolSink
from upturn.records import AgentVersion, Split, Task, record

EXAM_SEED_OFFSET = 500_000
"""Exams draw their tasks from streams that neither service nor training uses."""


@record
class Mark:
    """One task's result in a held-out evaluation."""

    task_id: str
    family: str
    level: int
    trajectory_id: str
    is_success: bool
    is_missing: bool
    rewards: Mapping[str, float | None]
    """The evaluation's reward components; None = missing."""
    turns: int
    written_tokens: int
    costs: Mapping[str, float]
    """The evaluation's costs by name. One that is not there is missing, which is not zero."""


class MeanCost(NamedTuple):
    """A cost over the marks that have it."""

    mean: float
    missing: int
    """Marks without it; they are left out of the mean."""


@record
class HeldoutResult:
    """All marks of one version, in the order of the held-out tasks."""

    name: str
    agent_version: str
    temperature: float
    marks: tuple[Mark, ...]

    def rate(self, *, level: int | None = None, family: str | None = None) -> float:
        """Success rate, of one level or family if named; a missing evaluation counts as failure."""
        found = self.outcomes(level=level, family=family)
        return sum(found) / len(found) if found else 0.0

    def outcomes(self, *, level: int | None = None, family: str | None = None) -> list[float]:
        """1.0 or 0.0 per task, in order."""
        return [
            float(mark.is_success)
            for mark in self.marks
            if (level is None or mark.level == level) and (family is None or mark.family == family)
        ]

    def interval(self, *, level: int | None = None, family: str | None = None) -> Interval:
        """Success rate with its 95 % interval by bootstrap over tasks."""
        return bootstrap_mean(self.outcomes(level=level, family=family), seed=0)

    def costs(self) -> dict[str, MeanCost]:
        """The mean of every cost that some mark has, by name."""
        found: dict[str, list[float]] = {}
        for mark in self.marks:
            for name, cost in mark.costs.items():
                found.setdefault(name, []).append(cost)
        return {
            name: MeanCost(fsum(costs) / len(costs), len(self.marks) - len(costs)) for name, costs in found.items()
        }

    def gain_over(self, before: "HeldoutResult") -> Interval:
        """Paired difference to ``before`` on the same tasks, 95 % by bootstrap over tasks."""
        assert [mark.task_id for mark in self.marks] == [mark.task_id for mark in before.marks]
        return paired_bootstrap(self.outcomes(), before.outcomes(), seed=0)


def evaluation_tasks(
    kit: EnvironmentKit, families: Sequence[str], count: int, *, seed: int, split: Split
) -> list[Task]:
    """At least ``count`` tasks: full rounds over the families, so that levels and families weigh the same."""
    rounds = -(-count // len(families))
    stream = kit.tasks(seed=seed + EXAM_SEED_OFFSET, split=split, families=families)
    return list(islice(stream, rounds * len(families)))


def heldout_tasks(context: Context) -> list[Task]:
    """The held-out tasks of every version of a run; fewer than configured where a file has no more."""
    count = context.config.tasks.heldout_count
    return evaluation_tasks(context.kit, context.trained_families, count, seed=context.seed, split="heldout")


def evaluate_version(
    runtime: AgentRuntime, version: AgentVersion, tasks: Sequence[Task], purpose: Purpose, *, pool: Pool | None
) -> HeldoutResult:
    """The version's marks. Attempts are kept under ``purpose.key`` in the pool; None = not kept."""
    trajectories = runtime.attempt([(version, task, 0) for task in tasks], purpose)
    evaluations = [verify(runtime.kit.verifier, task, each) for task, each in zip(tasks, trajectories, strict=True)]
    if pool is not None:
        PoolSink(pool).append(purpose.key, 0, list(zip(tasks, trajectories, evaluations, strict=True)))
    marks = tuple(
        Mark(
            task_id=task.id,
            family=task.family,
            level=task.level,
            trajectory_id=trajectory.id,
            is_success=evaluation.is_success,
            is_missing=evaluation.verdict == "missing",
            rewards=evaluation.rewards,
            turns=len(trajectory.turns),
            written_tokens=trajectory.usage.written_tokens,
            costs=evaluation.costs,
        )
        for task, trajectory, evaluation in zip(tasks, trajectories, evaluations, strict=True)
    )
    drawn_at = temperature(version) if purpose.temperature is None else purpose.temperature
    return HeldoutResult(purpose.key, version.id, drawn_at, marks)


def levels_of(marks: Iterable[Mark]) -> list[int]:
    """The levels that occur, ascending."""
    return sorted({mark.level for mark in marks})


def families_of(marks: Iterable[Mark]) -> list[str]:
    """The families that occur, by level and in order of appearance."""
    seen = {mark.family: mark.level for mark in marks}
    return sorted(seen, key=lambda family: seen[family])


def evaluate_heldout(
    context: Context, name: str, version: AgentVersion, temperature: float | None = None
) -> HeldoutResult:
    """The version's marks on the held-out tasks; None = at its serving temperature."""

    def work() -> HeldoutResult:
        tasks = heldout_tasks(context)
        context.progress.stage(f"Evaluate {version.id} on {len(tasks)} held-out tasks", len(tasks))
        result = evaluate_version(
            context.runtime, version, tasks, context.purpose(name, temperature), pool=context.pool
        )
        context.progress.advance(len(tasks), success=result.rate())
        return result

    return context.journal.record_step(name, HeldoutResult, work)


def compare(context: Context, name: str, incumbent: HeldoutResult, candidate: HeldoutResult) -> Validation:
    """Candidate against incumbent on the held-out tasks, paired."""
    pairs = [
        Pair(
            old.task_id,
            old.family,
            old.level,
            None if old.is_missing else float(old.is_success),
            None if new.is_missing else float(new.is_success),
            old.costs.get("safety", 0.0),
            new.costs.get("safety", 0.0),
        )
        for old, new in zip(incumbent.marks, candidate.marks, strict=True)
    ]
    verdict = context.journal.record_step(
        name, Validation, lambda: validate(pairs, context.config.validation, seed=context.seed)
    )
    context.progress.note(f"validation: {verdict.summary}")
    return verdict
