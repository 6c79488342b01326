"""Held-out evaluations: a version runs a fixed set of tasks, and every trajectory is verified and stored."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import fsum
from typing import NamedTuple

from upturn.deployment import Pair, Validation, validate
from upturn.environments import EnvironmentKit, draw_tasks, verify_all
from upturn.interval import Interval, bootstrap_mean, paired_bootstrap
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.rollouts import rollout_runtime
from upturn.loop.run import Context, proxy_scores
from upturn.pool import Pool, PoolSink
from upturn.records import AgentVersion, Split, Task, record, to_json

EVALUATION_SEED_OFFSET = 500_000
"""Added to the seed: evaluations draw their tasks from streams that neither serving nor training uses."""
EXTRA_SEED_OFFSET = 40_000
"""Added to the seed for ``extra_heldout_tasks``, so that no task is in a held-out evaluation of the same seed."""
HELDOUT = "heldout"
"""Name of the extra held-out tasks next to frozen suites."""


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
    """The evaluation's costs by name. An absent cost is missing, not zero."""
    episode: str | None = None
    """The task's episode; None = it has none."""


class MeanCost(NamedTuple):
    """The mean of a cost over the marks that have it."""

    mean: float
    missing: int
    """Number of marks without it."""


@record
class HeldoutResult:
    """All marks of one version, in the order of the held-out tasks."""

    name: str
    agent_version: str
    temperature: float
    marks: tuple[Mark, ...]

    def rate(self, *, level: int | None = None, family: str | None = None) -> float:
        """Success rate, of one level or family if given; a missing evaluation counts as failure."""
        outcomes = self.outcomes(level=level, family=family)
        return sum(outcomes) / len(outcomes) if outcomes else 0.0

    def outcomes(self, *, level: int | None = None, family: str | None = None) -> list[float]:
        """1.0 or 0.0 per task, in order."""
        return [float(mark.is_success) for mark in self._marks(level, family)]

    def interval(self, *, level: int | None = None, family: str | None = None) -> Interval:
        """Success rate with its 95 % interval by bootstrap over tasks; exact if all tasks have the same outcome."""
        marks = self._marks(level, family)
        outcomes = [float(mark.is_success) for mark in marks]
        return bootstrap_mean(outcomes, seed=0, clusters=_clusters(marks), bounds=(0.0, 1.0))

    def costs(self) -> dict[str, MeanCost]:
        """The mean of every cost that any mark has, by name."""
        values: dict[str, list[float]] = {}
        for mark in self.marks:
            for name, cost in mark.costs.items():
                values.setdefault(name, []).append(cost)
        return {
            name: MeanCost(fsum(costs) / len(costs), len(self.marks) - len(costs)) for name, costs in values.items()
        }

    def proxies(self) -> dict[str, float]:
        """The mean score by each reward model over the marks that have it, by the name of its folder."""
        values: dict[str, list[float]] = {}
        for mark in self.marks:
            for name, score in proxy_scores(mark.rewards).items():
                if score is not None:
                    values.setdefault(name, []).append(score)
        return {name: fsum(scores) / len(scores) for name, scores in values.items()}

    def gain_over(self, before: "HeldoutResult") -> Interval:
        """Paired difference to ``before`` on the same tasks, with its 95 % interval by bootstrap over tasks."""
        assert [mark.task_id for mark in self.marks] == [mark.task_id for mark in before.marks]
        return paired_bootstrap(
            self.outcomes(), before.outcomes(), seed=0, clusters=_clusters(self.marks), bounds=(-1.0, 1.0)
        )

    def _marks(self, level: int | None, family: str | None) -> list[Mark]:
        return [
            mark
            for mark in self.marks
            if (level is None or mark.level == level) and (family is None or mark.family == family)
        ]


def _clusters(marks: Sequence[Mark]) -> list[str]:
    """The unit of each mark: its episode, or the task by itself."""
    return [f"task {mark.task_id}" if mark.episode is None else f"episode {mark.episode}" for mark in marks]


def evaluation_tasks(
    kit: EnvironmentKit, families: Sequence[str], count: int, *, seed: int, split: Split
) -> list[Task]:
    """At least ``count`` tasks, in full rounds over the families so that all have equal weight."""
    rounds = -(-count // len(families))
    stream = draw_tasks(kit, seed=seed + EVALUATION_SEED_OFFSET, split=split, families=families)
    return list(islice(stream, rounds * len(families)))


def heldout_tasks(context: Context) -> list[Task]:
    """The held-out tasks for all versions of a run; fewer than configured if a file has no more."""
    count = context.config.tasks.heldout_count
    return evaluation_tasks(context.kit, context.trained_families, count, seed=context.seed, split="heldout")


def extra_heldout_tasks(kit: EnvironmentKit, families: Sequence[str], count: int, *, seed: int) -> list[Task]:
    """At least ``count`` held-out tasks that no held-out evaluation with this seed uses."""
    return evaluation_tasks(kit, families, count, seed=seed + EXTRA_SEED_OFFSET, split="heldout")


def evaluate_version(
    runtime: AgentRuntime, version: AgentVersion, tasks: Sequence[Task], purpose: Purpose, *, pool: Pool | None
) -> HeldoutResult:
    """The version's marks. Its trajectories are stored in the pool under ``purpose.key``; None = not stored."""
    trajectories = runtime.rollout([(version, task, 0) for task in tasks], purpose)
    evaluations = verify_all(runtime.kit.verifier, list(zip(tasks, trajectories, strict=True)))
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
            episode=task.episode,
        )
        for task, trajectory, evaluation in zip(tasks, trajectories, evaluations, strict=True)
    )
    return HeldoutResult(purpose.key, version.id, purpose.sampling_of(version)[0], marks)


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
    """The version's marks on the held-out tasks. ``temperature``: None = its serving temperature."""

    def work() -> HeldoutResult:
        tasks = heldout_tasks(context)
        context.progress.stage(f"Evaluate {version.id} on {len(tasks)} held-out tasks", len(tasks))
        with rollout_runtime(context, version, name) as runtime:
            result = evaluate_version(
                runtime, version, tasks, context.purpose(name, temperature), pool=context.pool
            )
        context.progress.advance(len(tasks), success=result.rate())
        return result

    return context.journal.record_step(name, HeldoutResult, work)


def compare(context: Context, name: str, incumbent: HeldoutResult, candidate: HeldoutResult) -> Validation:
    """Validates the candidate against the incumbent, paired by held-out task.

    The record is also in the run's folder, as ``<name>.json``, for `upturn release start`.
    """
    pairs = [
        Pair(
            old.task_id,
            old.family,
            old.level,
            None if old.is_missing else float(old.is_success),
            None if new.is_missing else float(new.is_success),
            old.costs.get("safety", 0.0),
            new.costs.get("safety", 0.0),
            old.episode,
        )
        for old, new in zip(incumbent.marks, candidate.marks, strict=True)
    ]
    validation = context.journal.record_step(
        name, Validation, lambda: validate(pairs, context.config.validation, seed=context.seed)
    )
    file = context.run_dir / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(to_json(validation) + "\n", encoding="utf-8")
    context.progress.note(f"validation: {validation.summary}")
    return validation
